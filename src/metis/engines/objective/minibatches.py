"""A batch cut into mini-batches: groups in their order, every judgment in one of them."""

from collections.abc import Sequence
from typing import NamedTuple

from metis.core import Batch, Group, Judgment


class MinibatchShare(NamedTuple):
    """Groups of one optimizer step, and the judgments that go with them: the rows of each."""

    groups: Sequence[Group]
    judgments: list[list[Judgment]]


def deal(batch: Batch, size: int) -> list[MinibatchShare]:
    """Cut a batch by prompts, `size` to a mini-batch (0: all).

    This step's judgment of a prompt goes with its group; all others, such as replayed ones, are
    dealt evenly. None is left out but where there are no groups, and so no update.
    """
    size = size or len(batch.groups)
    cuts = range(0, len(batch.groups), size) if batch.groups else ()
    shares = [MinibatchShare(batch.groups[start : start + size], []) for start in cuts]
    home = {group.prompt.id: share for share in shares for group in share.groups}
    dealt = 0
    for (prompt, key), rows in keyed(batch.judgments).items():
        if key == "" and prompt in home:
            home[prompt].judgments.append(rows)
        elif shares:
            shares[dealt % len(shares)].judgments.append(rows)
            dealt += 1
    return shares


def keyed(judgments: Sequence[Judgment]) -> dict[tuple[str, str], list[Judgment]]:
    """The rows of each judgment, by its prompt and its key."""
    rows: dict[tuple[str, str], list[Judgment]] = {}
    for judgment in judgments:
        rows.setdefault((judgment.prompt.id, judgment.key), []).append(judgment)
    return rows
