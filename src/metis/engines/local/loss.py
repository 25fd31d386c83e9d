"""The loss: METIS, Eq. 2 for rollouts and Eq. 9 for judgments, in one form.

A loss is a sum over units. A unit is a weighted sum of token log-probabilities: a token, a whole
sequence (the sequence ratio of GSPO), or one choice of a judgment. Each has an advantage and a
coefficient that carries every mean and weight, so that micro-batches only have to add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass
class Units:
    """How the log-probabilities of one row's targets enter the loss.

    Member k says that unit `unit[k]` contains target `target[k]`, `scale[k]` times. `old` is the
    log-probability of each target under the policy that wrote it; None means the present one, a
    ratio of 1. Without `clip` there is no ratio: the objective is advantage * log-probability.
    """

    targets: int
    target: Integers
    unit: Integers
    scale: Floats
    advantage: Floats
    coefficient: Floats
    old: Floats | None
    clip: bool


def tokens(advantage: float, count: int, share: float, old: Floats | None, clip: bool) -> Units:
    """Every token a unit of the same advantage, each with the coefficient `share`."""
    each, one = np.arange(count), np.ones(count)
    return Units(count, each, each, one, advantage * one, share * one, old, clip)


def sequence(advantage: float, count: int, share: float, old: Floats | None) -> Units:
    """The mean over the tokens as one unit: GSPO's ratio (Zheng et al., arXiv 2507.18071)."""
    each, one = np.arange(count), np.ones(1)
    scale = np.full(count, 1.0 / count)
    return Units(count, each, 0 * each, scale, advantage * one, share * one, old, clip=True)


def choices(paths: Sequence[Sequence[int]], advantage: Floats, share: Floats, clip: bool) -> Units:
    """Every path through a tree of tokens as one unit."""
    target = np.concatenate([np.asarray(path, dtype=np.int64) for path in paths])
    unit = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    count = int(target.max()) + 1
    return Units(count, target, unit, np.ones(len(target)), advantage, share, None, clip)


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

    now = total(logprobs)
    advantage = column([row.advantage for row in rows], torch.float32)
    coefficient = column([row.coefficient for row in rows], torch.float32)
    bounded = column([np.full(len(row.advantage), row.clip) for row in rows], torch.bool)
    ratio = torch.exp(now - total(old))
    clipped = torch.clamp(ratio, 1 - low, 1 + high)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    objective = torch.where(bounded, surrogate, advantage * now)
    moved = (surrogate < ratio * advantage) & bounded
    return -(coefficient * objective).sum(), moved.float().sum()


def kl_loss(logprobs: torch.Tensor, reference: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """The k3 estimate of KL(policy || reference), summed with a coefficient per token."""
    difference = reference - logprobs
    return (share * (torch.exp(difference) - difference - 1)).sum()
