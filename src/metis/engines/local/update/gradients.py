"""Gradients of rows: prefix groups, micro-batches, backward."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from metis.engines.local.model.forward import (
    has_cache,
    joinable,
    joint_logprobs,
    joint_logprobs_and_entropies,
)
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.local.update.rows import Item, MiniBatch
from metis.engines.local.update.stopwatch import UNTIMED, Stopwatch
from metis.engines.objective import loss
from metis.engines.tokens.packing import PrefixGroup, shareable


class Part(NamedTuple):
    """A prefix group and its items: all judgments, or all answers."""

    group: PrefixGroup
    items: list[Item]

    @property
    def judge(self) -> bool:
        return self.items[0].judge


def prefix_groups(policy: Policy, items: Sequence[Item], budget: int) -> Iterator[Part]:
    """Micro-batches within the token budget; rows share a prefix where that saves work."""
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
        for group in PrefixGroup(sequences[0][:skip], rows, policy.layout).split(budget):
            yield Part(group, members[done : done + len(group.rows)])
            done += len(group.rows)


def _by_temperature(items: list[Item]) -> list[list[Item]]:
    """Group judgments by sampling temperature: a forward pass has a single one."""
    groups: dict[float, list[Item]] = {}
    for item in items:
        groups.setdefault(item.temperature, []).append(item)
    return list(groups.values())


def _by_context(policy: Policy, items: list[Item]) -> list[list[Item]]:
    """On a CPU, group answers by prompt to share its prefix; a GPU prefers large plain batches."""
    if policy.wide:
        return [items] if items else []
    groups: dict[tuple[int, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(tuple(item.tokens[: item.start + 1]), []).append(item)
    return list(groups.values())


def passes(policy: Policy, items: Sequence[Item], settings: LocalSettings) -> Iterator[list[Part]]:
    """Forward passes: one group each; on a GPU judgments are packed with answers if they fit."""
    waiting: list[Part] = []
    for part in prefix_groups(policy, items, settings.tokens):
        if waiting and not _joins(policy, waiting[-1], part, settings):
            yield waiting
            waiting = []
        waiting = [*waiting, part]
    if waiting:
        yield waiting


def _joins(policy: Policy, last: Part, part: Part, settings: LocalSettings) -> bool:
    """True if judgments can be packed with answers."""
    both = last.group, part.group
    return (
        policy.wide
        and (part.judge and not last.judge)
        and sum(group.size for group in both) <= settings.tokens
        and all(joinable(policy, group) for group in both)
    )


def _judged(parts: Sequence[Part]) -> float:
    """The judge's share of a forward pass, by tokens."""
    judge = sum(part.group.size for part in parts if part.judge)
    return judge / sum(part.group.size for part in parts)


@torch.no_grad()
def remember_old(
    policy: Policy, minibatch: MiniBatch, settings: LocalSettings, judging: Stopwatch = UNTIMED
) -> None:
    """Compute old log-probabilities before the first optimizer step, where missing."""
    missing = [item for item in minibatch.items if item.terms.old is None and item.terms.clip]
    for item, logprobs in _each(policy, missing, settings, judging):
        item.terms.old = logprobs


@torch.no_grad()
def remember_reference(policy: Policy, minibatch: MiniBatch, settings: LocalSettings) -> None:
    """Log-probabilities of the rollouts under the reference policy, for the KL term."""
    for item, logprobs in _each(policy, minibatch.answers, settings, UNTIMED):
        item.reference = logprobs


def _each(
    policy: Policy, items: Sequence[Item], settings: LocalSettings, judging: Stopwatch
) -> Iterator[tuple[Item, loss.Floats]]:
    for parts in passes(policy, items, settings):
        with judging.running(_judged(parts)):
            found = joint_logprobs(policy, *_asked(parts))
            arrays = [logprobs.cpu().numpy() for logprobs in found]
        for part, logprobs in zip(parts, arrays, strict=True):
            start = 0
            for item in part.items:
                yield item, logprobs[start : start + item.terms.targets].astype(np.float64)
                start += item.terms.targets


def _asked(parts: Sequence[Part]) -> tuple[list[PrefixGroup], list[float]]:
    """The groups of a pass, each at the sampling temperature of its rows; at 1 for choices."""
    return [part.group for part in parts], [part.items[0].temperature for part in parts]


@dataclass
class Losses:
    """Summed losses of rows, how many of their terms were clipped, and entropies of answers."""

    policy: float = 0.0
    judge: float = 0.0
    clipped: float = 0.0
    terms: int = 0
    entropy: float = 0.0
    tokens: int = 0

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(
            self.policy + other.policy,
            self.judge + other.judge,
            self.clipped + other.clipped,
            self.terms + other.terms,
            self.entropy + other.entropy,
            self.tokens + other.tokens,
        )


def backward(
    policy: Policy, items: Sequence[Item], settings: LocalSettings, judging: Stopwatch = UNTIMED
) -> Losses:
    """Accumulate the gradient of the rows' loss over micro-batches."""
    losses = Losses()
    for parts in passes(policy, items, settings):
        with judging.running(_judged(parts)):
            _backward(policy, parts, settings, losses)
    policy.network.eval()
    return losses


def _backward(policy: Policy, parts: list[Part], settings: LocalSettings, losses: Losses) -> None:
    cached = has_cache(policy, [part.group for part in parts])
    policy.network.train(settings.checkpointing and not cached)
    found = joint_logprobs_and_entropies(policy, *_asked(parts))
    results = [
        _part_loss(part, logprobs, settings)
        for part, (logprobs, _) in zip(parts, found, strict=True)
    ]
    torch.stack([value for value, _ in results]).sum().backward()  # type: ignore[no-untyped-call]
    # Only synchronise with the GPU at the end.
    for part, (value, clipped), (_, entropies) in zip(parts, results, found, strict=True):
        losses.clipped += float(clipped)
        losses.terms += sum(len(item.terms.advantage) for item in part.items)
        if part.judge:
            losses.judge += float(value.detach())
        else:
            losses.policy += float(value.detach())
            losses.entropy += float(entropies.sum())
            losses.tokens += len(entropies)


def _part_loss(
    part: Part, logprobs: torch.Tensor, settings: LocalSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [item.terms for item in part.items]
    value, clipped = loss.surrogate_loss(logprobs, rows, settings.clip_low, settings.clip_high)
    if settings.kl and not part.judge:
        value = value + _kl(logprobs, part.items)
    return value, clipped


def _kl(logprobs: torch.Tensor, members: Sequence[Item]) -> torch.Tensor:
    counts = [item.terms.targets for item in members]
    reference = np.concatenate([item.reference for item in members if item.reference is not None])
    coefficients = np.repeat([item.kl_coefficient for item in members], counts)
    return loss.kl_loss(
        logprobs,
        torch.tensor(reference, dtype=torch.float32, device=logprobs.device),
        torch.tensor(coefficients, dtype=torch.float32, device=logprobs.device),
    )
