"""Rows into gradients: bundles of rows that share a prefix, passes of them, backward."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from metis.engines.local.model.forward import joinable, together
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import Local
from metis.engines.local.update.rows import Item, MiniBatch
from metis.engines.local.update.stopwatch import UNTIMED, Stopwatch
from metis.engines.objective import loss
from metis.engines.tokens.packing import Bundle, shareable


class Part(NamedTuple):
    """A bundle of rows, and the items they were made of: judgments, or answers."""

    bundle: Bundle
    items: list[Item]

    @property
    def judge(self) -> bool:
        return self.items[0].judge


def bundles(policy: Policy, items: Sequence[Item], budget: int) -> Iterator[Part]:
    """Rows that share a prefix go together where that saves work; all within the budget."""
    judge = [item for item in items if item.judge]
    answers = [item for item in items if not item.judge]
    for members in [*_by_context(policy, answers), *_by_temperature(judge)]:
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


def _by_temperature(items: list[Item]) -> list[list[Item]]:
    """A pass over judgments has one temperature."""
    groups: dict[float, list[Item]] = {}
    for item in items:
        groups.setdefault(item.temperature, []).append(item)
    return list(groups.values())


def _by_context(policy: Policy, items: list[Item]) -> list[list[Item]]:
    """On a CPU the answers to one prompt share its pass; a GPU prefers few large plain batches."""
    if policy.wide:
        return [items] if items else []
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
    """Not under gradient checkpointing, which would recompute with the usual attention."""
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
    for item, logprobs in _each(policy, minibatch.answers, settings, UNTIMED):
        item.reference = logprobs


def _each(
    policy: Policy, items: Sequence[Item], settings: Local, judging: Stopwatch
) -> Iterator[tuple[Item, loss.Floats]]:
    for parts in passes(policy, items, settings):
        with judging.running(_judged(parts)):
            arrays = [logprobs.cpu().numpy() for logprobs in _logprobs(policy, parts)]
        for part, logprobs in zip(parts, arrays, strict=True):
            start = 0
            for item in part.items:
                yield item, logprobs[start : start + item.units.targets].astype(np.float64)
                start += item.units.targets


def _logprobs(policy: Policy, parts: Sequence[Part]) -> list[torch.Tensor]:
    """Rows are trained on the distribution they were drawn from; choices on the plain one."""
    temperatures = [part.items[0].temperature for part in parts]
    return together(policy, [part.bundle for part in parts], temperatures)


@dataclass
class Losses:
    """The losses of some rows, and how many of their units were clipped."""

    policy: float = 0.0
    judge: float = 0.0
    clipped: float = 0.0
    units: int = 0

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(
            self.policy + other.policy,
            self.judge + other.judge,
            self.clipped + other.clipped,
            self.units + other.units,
        )


def backward(
    policy: Policy, items: Sequence[Item], settings: Local, judging: Stopwatch = UNTIMED
) -> Losses:
    """Add the gradient of the rows' loss, pass by pass."""
    losses = Losses()
    for parts in passes(policy, items, settings):
        with judging.running(_judged(parts)):
            _backward(policy, parts, settings, losses)
    policy.network.eval()
    return losses


def _backward(policy: Policy, parts: list[Part], settings: Local, losses: Losses) -> None:
    prefixed = any(part.bundle.prefix for part in parts)
    policy.network.train(settings.checkpointing and not prefixed)
    logprobs = _logprobs(policy, parts)
    results = [_part_loss(*each, settings) for each in zip(parts, logprobs, strict=True)]
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
