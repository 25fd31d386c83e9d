"""Turns a batch into mini-batches of rows with their loss terms.

Conventions: GRPO's token-level ratio, mean over the tokens of a sequence, then over sequences
(METIS's Eq. 2 has the sequence ratio and no mean over tokens); L_judge is the mean over the
judgments of the mini-batch. Rows without an advantage are dropped, but count in the denominators.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from metis.core import Batch, Group, Trajectory
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.local.update.stopwatch import UNTIMED, Stopwatch
from metis.engines.objective import loss
from metis.engines.objective.judgments import JudgmentRows, judgment_rows
from metis.engines.objective.minibatches import split_minibatches
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.packing import Row, sequence_row
from metis.signal import advantages


@dataclass
class Item:
    """One sequence of the update: its tokens, how to build its row, and its loss terms."""

    tokens: list[int]
    start: int
    """Index of the token before the first target: the longest prefix that it can share."""
    row: Callable[[int], Row]
    terms: loss.LossTerms
    judge: bool
    temperature: float = 1.0
    """Sampling temperature, used for the log-probabilities."""
    kl_coefficient: float = 0.0
    """Coefficient of each token in the KL term."""
    reference: loss.Floats | None = None


@dataclass
class MiniBatch:
    """The rows of one optimizer step; `rollouts` is the denominator, before any was skipped."""

    items: list[Item] = field(default_factory=list)
    rollouts: int = 0
    skipped: int = 0

    @property
    def answers(self) -> list[Item]:
        return [item for item in self.items if not item.judge]

    @property
    def judgments(self) -> list[Item]:
        return [item for item in self.items if item.judge]


def local_minibatches(
    policy: Policy,
    batch: Batch,
    settings: LocalSettings,
    version: int,
    judging: Stopwatch = UNTIMED,
) -> list[MiniBatch]:
    """Split a batch by prompts; judgments go with their group, replayed ones are spread evenly."""
    shares = split_minibatches(batch, settings.minibatch)
    judgments = [rows for share in shares for rows in share.judgments]
    with judging.running(1.0 if judgments else 0.0):
        judged = iter(judgment_rows(policy, judgments))
    made = []
    for share in shares:
        minibatch = MiniBatch(rollouts=share.rollouts)
        for group in share.groups:
            minibatch.items += _rollout_items(group, minibatch, settings, version)
        for _ in share.judgments:
            for item in _judgment_items(next(judged)):
                item.terms.coefficient = item.terms.coefficient / len(share.judgments)
                minibatch.items.append(item)
        made.append(minibatch)
    return made


def _rollout_items(
    group: Group, minibatch: MiniBatch, settings: LocalSettings, version: int
) -> Iterator[Item]:
    if len(group.rewards) < 2:
        minibatch.skipped += len(group.rewards)
        return
    values = advantages(group.rewards)
    if settings.std_division:
        values = values / (np.std(group.rewards, ddof=1) + 1e-6)  # as in verl
    for advantage, trajectory in zip(values, group.trajectories, strict=True):
        count = int(trajectory.loss_mask[1:].sum())
        if count == 0 or (abs(advantage) < 1e-12 and not settings.kl):
            minibatch.skipped += 1
            continue
        stale = trajectory.policy < version
        old = (
            trajectory.logprobs[1:][trajectory.loss_mask[1:]].astype(np.float64) if stale else None
        )
        each = 1.0 / minibatch.rollouts
        if settings.ratio == "sequence":
            terms = loss.sequence_term(float(advantage), count, each, old)
        else:
            terms = loss.token_terms(float(advantage), count, each / count, old, clip=True)
        item = _plain(trajectory, terms, False, settings.temperature)
        item.kl_coefficient = settings.kl * each / count
        yield item


def _plain(trajectory: Trajectory, terms: loss.LossTerms, judge: bool, temperature: float) -> Item:
    tokens, mask = trajectory.tokens, trajectory.loss_mask
    start = int(np.argmax(mask[1:]))
    row: Callable[[int], Row] = partial(sequence_row, tokens, mask)
    return Item(tokens.tolist(), start, row, terms, judge, temperature)


def _judgment_items(rows: JudgmentRows) -> Iterator[Item]:
    """One row per sampled reply, or one row for all scored choices."""
    for judgment, trajectory in rows.replies:
        count = int(trajectory.loss_mask[1:].sum())
        terms = loss.token_terms(judgment.advantage, count, judgment.weight, None, judgment.clip)
        yield _plain(trajectory, terms, True, judgment.temperature)
    if rows.scored is not None:
        context, tree, choices = rows.scored
        terms = loss.choice_terms(tree.paths, choices)
        yield Item(context, len(context) - 1, _growing(tree, context), terms, True)


def _growing(tree: ChoiceTree, context: list[int]) -> Callable[[int], Row]:
    return lambda skip: tree.row(context[skip:])
