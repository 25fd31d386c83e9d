"""Splits a batch into mini-batches: groups in order, each judgment in one of them."""

from collections.abc import Sequence
from typing import NamedTuple

from metis.core import Batch, Group, Judgment


class MinibatchShare(NamedTuple):
    """The groups of one optimizer step, and its judgments (a list of rows each)."""

    groups: Sequence[Group]
    judgments: list[list[Judgment]]

    @property
    def rollouts(self) -> int:
        """Number of rewarded rollouts: the denominator of the loss, before any row is dropped."""
        return sum(len(group.rewards) for group in self.groups)


def split_minibatches(batch: Batch, size: int) -> list[MinibatchShare]:
    """Split a batch by prompts, `size` per mini-batch (0: all).

    This step's judgment of a prompt goes with its group; others, such as replayed ones, are spread
    evenly. Without groups there is no update.
    """
    _require_trajectories(batch.groups)
    size = size or len(batch.groups)
    cuts = range(0, len(batch.groups), size) if batch.groups else ()
    shares = [MinibatchShare(batch.groups[start : start + size], []) for start in cuts]
    home = {group.prompt.id: share for share in shares for group in share.groups}
    dealt = 0
    for (prompt, key), rows in rows_by_judgment(batch.judgments).items():
        if key == "" and prompt in home:
            home[prompt].judgments.append(rows)
        elif shares:
            shares[dealt % len(shares)].judgments.append(rows)
            dealt += 1
    return shares


def _require_trajectories(groups: Sequence[Group]) -> None:
    for group in groups:
        if group.rewards and not group.trajectories:
            raise ValueError(
                f"the group of prompt {group.prompt.id!r} has rewards alone: an update needs "
                "trajectories"
            )


def rows_by_judgment(judgments: Sequence[Judgment]) -> dict[tuple[str, str], list[Judgment]]:
    """The rows of each judgment, by prompt and key."""
    rows: dict[tuple[str, str], list[Judgment]] = {}
    for judgment in judgments:
        rows.setdefault((judgment.prompt.id, judgment.key), []).append(judgment)
    return rows
