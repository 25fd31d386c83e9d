"""The loss: GRPO's clipped surrogate for rollouts and METIS's Eq. 9 for judgments, in one form.

A loss is a sum over units. A unit is a weighted sum of token log-probabilities: a token, a whole
sequence (the sequence ratio of GSPO), or one choice of a judgment. Each has an advantage and a
coefficient that carries every mean and weight, so that micro-batches only have to add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass
class Units:
    """The part of one row's log-probabilities in the loss.

    Member k says that unit `unit[k]` contains target `target[k]`, `scale[k]` times. `old` is the
    log-probability of each target under the policy that wrote it; None means the present one, a
    ratio of 1. Without `clip` there is no ratio: the objective is advantage * log-probability.
    With `offset` the units are the choices of one judgment: their ratios are of probabilities that
    are normalised over the choices, offsets added, so that a ratio never pushes against the format.
    """

    targets: int
    target: Integers
    unit: Integers
    scale: Floats
    advantage: Floats
    coefficient: Floats
    old: Floats | None
    clip: bool
    offset: Floats | None = None


def tokens(advantage: float, count: int, share: float, old: Floats | None, clip: bool) -> Units:
    """Every token a unit of the same advantage, each with the coefficient `share`."""
    each, one = np.arange(count), np.ones(count)
    return Units(count, each, each, one, advantage * one, share * one, old, clip)


def sequence(advantage: float, count: int, share: float, old: Floats | None) -> Units:
    """The mean over the tokens as one unit: GSPO's ratio (Zheng et al., arXiv 2507.18071)."""
    each, one = np.arange(count), np.ones(1)
    scale = np.full(count, 1.0 / count)
    return Units(count, each, 0 * each, scale, advantage * one, share * one, old, clip=True)


def choices(
    paths: Sequence[Sequence[int]], advantage: Floats, share: Floats, offset: Floats | None
) -> Units:
    """Every path through a tree of tokens as one unit; clipped where there are offsets."""
    target = np.concatenate([np.asarray(path, dtype=np.int64) for path in paths])
    unit = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    count, one, clip = int(target.max()) + 1, np.ones(len(target)), offset is not None
    return Units(count, target, unit, one, advantage, share, None, clip, offset)


def bundle_loss(
    logprobs: torch.Tensor, rows: Sequence[Units], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """-(sum of coefficient * objective) over all units of a bundle, and how many were clipped."""

    def column(values: Sequence[NDArray[Any]], kind: torch.dtype) -> torch.Tensor:
        return torch.tensor(np.concatenate(values), dtype=kind, device=logprobs.device)

    first_target = np.cumsum([0, *(row.targets for row in rows)])
    first_unit = np.cumsum([0, *(len(row.advantage) for row in rows)])
    targets = column([r.target + at for r, at in zip(rows, first_target, strict=False)], torch.long)
    units = column([r.unit + at for r, at in zip(rows, first_unit, strict=False)], torch.long)
    scale = column([row.scale for row in rows], torch.float32)
    given = [np.full(row.targets, np.nan) if row.old is None else row.old for row in rows]
    old = column(given, torch.float32)
    old = torch.where(torch.isnan(old), logprobs.detach(), old)

    def total(values: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros(int(first_unit[-1]), device=logprobs.device)
        return zero.index_add(0, units, values[targets] * scale)

    normalised = _normaliser(rows, logprobs.device)
    now = normalised(total(logprobs))
    advantage = column([row.advantage for row in rows], torch.float32)
    coefficient = column([row.coefficient for row in rows], torch.float32)
    bounded = column([np.full(len(row.advantage), row.clip) for row in rows], torch.bool)
    ratio = torch.exp(now - normalised(total(old)))
    clipped = torch.clamp(ratio, 1 - low, 1 + high)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    objective = torch.where(bounded, surrogate, advantage * now)
    moved = (surrogate < ratio * advantage) & bounded
    return -(coefficient * objective).sum(), moved.float().sum()


def _normaliser(
    rows: Sequence[Units], device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Log-softmax over the units of each row that has offsets; others stay as they are."""
    if all(row.offset is None for row in rows):
        return lambda values: values
    sizes = [len(row.advantage) for row in rows]
    given = [
        np.zeros(size) if r.offset is None else r.offset
        for r, size in zip(rows, sizes, strict=True)
    ]
    offset = torch.tensor(np.concatenate(given), dtype=torch.float32, device=device)
    row_of = torch.tensor(np.repeat(np.arange(len(rows)), sizes), device=device)
    chosen = torch.tensor(np.repeat([r.offset is not None for r in rows], sizes), device=device)

    def normalised(values: torch.Tensor) -> torch.Tensor:
        shifted = values + offset
        low = torch.full((len(rows),), -torch.inf, device=device)
        highest = low.scatter_reduce(0, row_of, shifted.detach(), "amax")
        weights = torch.exp(shifted - highest[row_of])
        sums = torch.zeros(len(rows), device=device).index_add(0, row_of, weights)
        return torch.where(chosen, shifted - (highest + torch.log(sums))[row_of], values)

    return normalised


def kl_loss(logprobs: torch.Tensor, reference: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """The k3 estimate of KL(policy || reference), summed with a coefficient per token."""
    difference = reference - logprobs
    return (share * (torch.exp(difference) - difference - 1)).sum()
