"""One training step: batches into mini-batches, rows into bundles, passes of them into gradients.

Conventions (METIS, Eq. 2 and 9): token-level ratio; mean over the tokens of a sequence, then over
the sequences; each judgment in its group's mini-batch, averaged over the prompts there. The cut
into mini-batches comes before rows without an advantage are left out; denominators count those.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from metis.core import Batch, Continuation, Group, Judgment, Trajectory
from metis.engines.local import loss
from metis.engines.local.bundle import Bundle, Row, plain, shareable
from metis.engines.local.choices import ChoiceTree
from metis.engines.local.encoding import encode_scored
from metis.engines.local.forward import joinable, together
from metis.engines.local.policy import Policy
from metis.engines.local.settings import Local
from metis.signal import advantages


@dataclass
class Item:
    """A row to be: its whole token sequence, how to make a row of it, and its part in the loss."""

    tokens: list[int]
    start: int
    """The place of the token that its first target follows: where a row may begin at the latest."""
    row: Callable[[int], Row]
    units: loss.Units
    judge: bool
    share: float = 0.0
    """Coefficient of each token in the KL term."""
    reference: loss.Floats | None = None


class Part(NamedTuple):
    """A bundle of rows, and the items they were made of: judgments, or answers."""

    bundle: Bundle
    items: list[Item]

    @property
    def judge(self) -> bool:
        return self.items[0].judge


@dataclass
class MiniBatch:
    """The rows of one optimizer step, and how many rows there were before any was left out."""

    items: list[Item] = field(default_factory=list)
    rollouts: int = 0
    skipped: int = 0


class Stopwatch:
    """Adds up the seconds of some of the work."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.seconds = clock, 0.0

    @contextmanager
    def running(self, share: float) -> Iterator[None]:
        """Counts this share of what happens inside; for none of it the clock is left alone."""
        start = self.clock() if share else 0.0
        yield
        if share:
            self.seconds += share * (self.clock() - start)


UNTIMED = Stopwatch(lambda: 0.0)


def minibatches(
    policy: Policy,
    batch: Batch,
    settings: Local,
    version: int,
    judging: Stopwatch = UNTIMED,
) -> list[MiniBatch]:
    """Cut a batch by prompts; judgments go with their group."""
    size = settings.minibatch or len(batch.groups)
    with judging.running(1.0 if batch.judgments else 0.0):
        judged = _judgment_items(policy, batch.judgments)
    made = []
    for start in range(0, len(batch.groups), size):
        groups = batch.groups[start : start + size]
        minibatch = MiniBatch(rollouts=sum(len(group.rewards) for group in groups))
        for group in groups:
            minibatch.items += _rollout_items(group, minibatch, settings, version)
            for item in judged.get(group.prompt.id, ()):
                item.units.coefficient = item.units.coefficient / len(groups)
                minibatch.items.append(item)
        made.append(minibatch)
    return made


def _rollout_items(
    group: Group, minibatch: MiniBatch, settings: Local, version: int
) -> Iterator[Item]:
    if len(group.rewards) < 2:
        minibatch.skipped += len(group.rewards)
        return
    values = advantages(group.rewards)
    if settings.std_division:
        values = values / (np.std(group.rewards, ddof=1) + 1e-6)  # as verl does
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
            units = loss.sequence(float(advantage), count, each, old)
        else:
            units = loss.tokens(float(advantage), count, each / count, old, clip=True)
        yield _plain(trajectory, units, False, settings.kl * each / count)


def _plain(trajectory: Trajectory, units: loss.Units, judge: bool, share: float = 0.0) -> Item:
    tokens, mask = trajectory.tokens, trajectory.loss_mask
    start = int(np.argmax(mask[1:]))
    return Item(tokens.tolist(), start, lambda skip: plain(tokens, mask, skip), units, judge, share)


def _judgment_items(policy: Policy, judgments: Sequence[Judgment]) -> dict[str, list[Item]]:
    """By prompt: a row for every sampled judgment; the choices of a scored one share a row."""
    items: dict[str, list[Item]] = {}
    scored: dict[str, list[Judgment]] = {}
    for judgment in judgments:
        trajectory = judgment.trajectory
        if isinstance(trajectory, Continuation):
            scored.setdefault(judgment.prompt.id, []).append(judgment)
            continue
        count = int(trajectory.loss_mask[1:].sum())
        if count and judgment.advantage:
            units = loss.tokens(judgment.advantage, count, judgment.weight, None, judgment.clip)
            items.setdefault(judgment.prompt.id, []).append(_plain(trajectory, units, True))
    for prompt, item in _scored_items(policy, scored):
        items.setdefault(prompt, []).append(item)
    return items


def _scored_items(policy: Policy, scored: dict[str, list[Judgment]]) -> Iterator[tuple[str, Item]]:
    trees: dict[tuple[str, ...], ChoiceTree] = {}
    asked = [
        [j.trajectory for j in rows if isinstance(j.trajectory, Continuation)]
        for rows in scored.values()
    ]
    contexts = encode_scored(policy, [choices[0].chat for choices in asked])
    for (prompt, rows), choices, context in zip(scored.items(), asked, contexts, strict=True):
        texts = tuple(choice.text for choice in choices)
        if texts not in trees:
            trees[texts] = ChoiceTree.of([policy.encode_reply(text) for text in texts])
        tree = trees[texts]
        values = np.array([judgment.advantage for judgment in rows])
        weights = np.array([judgment.weight for judgment in rows])
        units = loss.choices(tree.paths, values, weights, rows[0].clip)
        yield prompt, Item(context, len(context) - 1, _growing(tree, context), units, True)


def _growing(tree: ChoiceTree, context: list[int]) -> Callable[[int], Row]:
    return lambda skip: tree.row(context[skip:])


def bundles(policy: Policy, items: Sequence[Item], budget: int) -> Iterator[Part]:
    """Rows that share a beginning go together where that saves work; all within the budget."""
    judge = [item for item in items if item.judge]
    answers = [item for item in items if not item.judge]
    for members in [*_by_context(policy, answers), judge]:
        if not members:
            continue
        members = sorted(members, key=lambda item: len(item.tokens))
        sequences = [item.tokens for item in members]
        shares = members[0].judge or not policy.wide
        starts, aligned = [item.start for item in members], policy.layout.aligned
        skip = shareable(sequences, starts, aligned) if shares else 0
        rows = [item.row(skip) for item in members]
        done = 0
        for bundle in Bundle(sequences[0][:skip], rows, policy.layout).split(budget):
            yield Part(bundle, members[done : done + len(bundle.rows)])
            done += len(bundle.rows)


def _by_context(policy: Policy, items: list[Item]) -> list[list[Item]]:
    """On a CPU the answers to one prompt share its pass; a GPU prefers few large plain batches."""
    if policy.wide:
        return [items]
    groups: dict[tuple[int, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(tuple(item.tokens[: item.start + 1]), []).append(item)
    return list(groups.values())


def passes(policy: Policy, items: Sequence[Item], settings: Local) -> Iterator[list[Part]]:
    """The bundles one by one; on a GPU judgments beside answers, where there is room."""
    waiting: list[Part] = []
    for part in bundles(policy, items, settings.tokens):
        if waiting and not _joins(policy, waiting[-1], part, settings):
            yield waiting
            waiting = []
        waiting = [*waiting, part]
    if waiting:
        yield waiting


def _joins(policy: Policy, last: Part, part: Part, settings: Local) -> bool:
    """Not where activations are recomputed, for which the usual attention would be used."""
    both = last.bundle, part.bundle
    return (
        (policy.wide and not settings.checkpointing)
        and (part.judge and not last.judge)
        and sum(bundle.size for bundle in both) <= settings.tokens
        and all(joinable(policy, bundle) for bundle in both)
    )


def _judged(parts: Sequence[Part]) -> float:
    """The judge's share of a pass: where answers go with it, by tokens."""
    judge = sum(part.bundle.size for part in parts if part.judge)
    return judge / sum(part.bundle.size for part in parts)


@torch.no_grad()
def remember_old(
    policy: Policy, minibatch: MiniBatch, settings: Local, judging: Stopwatch = UNTIMED
) -> None:
    """Fix the log-probabilities before the first optimizer step, where they are not given."""
    missing = [item for item in minibatch.items if item.units.old is None and item.units.clip]
    for item, logprobs in _each(policy, missing, settings, judging):
        item.units.old = logprobs


@torch.no_grad()
def remember_reference(policy: Policy, minibatch: MiniBatch, settings: Local) -> None:
    """Log-probabilities of the rollouts under the reference policy, for the KL term."""
    answers = [item for item in minibatch.items if not item.judge]
    for item, logprobs in _each(policy, answers, settings, UNTIMED):
        item.reference = logprobs


def _each(
    policy: Policy, items: Sequence[Item], settings: Local, judging: Stopwatch
) -> Iterator[tuple[Item, loss.Floats]]:
    for parts in passes(policy, items, settings):
        with judging.running(_judged(parts)):
            found = [logprobs.cpu().numpy() for logprobs in _logprobs(policy, parts, settings)]
        for part, logprobs in zip(parts, found, strict=True):
            start = 0
            for item in part.items:
                yield item, logprobs[start : start + item.units.targets].astype(np.float64)
                start += item.units.targets


def _logprobs(policy: Policy, parts: Sequence[Part], settings: Local) -> list[torch.Tensor]:
    """Rollouts are trained on the distribution they were drawn from; judgments on the plain one."""
    temperatures = [1.0 if part.judge else settings.temperature for part in parts]
    return together(policy, [part.bundle for part in parts], temperatures)


@dataclass
class Losses:
    """What a mini-batch cost, and how much of it was clipped."""

    policy: float = 0.0
    judge: float = 0.0
    clipped: float = 0.0
    units: int = 0


def backward(
    policy: Policy, minibatch: MiniBatch, settings: Local, judging: Stopwatch = UNTIMED
) -> Losses:
    """Add the gradient of a mini-batch's loss, pass by pass."""
    losses = Losses()
    for parts in passes(policy, minibatch.items, settings):
        with judging.running(_judged(parts)):
            _backward(policy, parts, settings, losses)
    policy.network.eval()
    return losses


def _backward(policy: Policy, parts: list[Part], settings: Local, losses: Losses) -> None:
    prefixed = any(part.bundle.prefix for part in parts)
    policy.network.train(settings.checkpointing and not prefixed)
    found = _logprobs(policy, parts, settings)
    results = [_part_loss(*each, settings) for each in zip(parts, found, strict=True)]
    torch.stack([value for value, _ in results]).sum().backward()  # type: ignore[no-untyped-call]
    # Numbers are fetched last: the GPU would wait for every one.
    for part, (value, clipped) in zip(parts, results, strict=True):
        losses.clipped += float(clipped)
        losses.units += sum(len(item.units.advantage) for item in part.items)
        if part.judge:
            losses.judge += float(value.detach())
        else:
            losses.policy += float(value.detach())


def _part_loss(
    part: Part, logprobs: torch.Tensor, settings: Local
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [item.units for item in part.items]
    value, clipped = loss.bundle_loss(logprobs, rows, settings.clip_low, settings.clip_high)
    if settings.kl and not part.judge:
        value = value + _kl(logprobs, part.items)
    return value, clipped


def _kl(logprobs: torch.Tensor, members: Sequence[Item]) -> torch.Tensor:
    counts = [item.units.targets for item in members]
    reference = np.concatenate([item.reference for item in members if item.reference is not None])
    shares = np.repeat([item.share for item in members], counts)
    return loss.kl_loss(
        logprobs,
        torch.tensor(reference, dtype=torch.float32, device=logprobs.device),
        torch.tensor(shares, dtype=torch.float32, device=logprobs.device),
    )
