"""The loss: GRPO's clipped surrogate for rollouts and METIS's Eq. 9 for judgments, in one form.

A loss is a sum of terms. A term is a weighted sum of token log-probabilities: a token, a sequence
(GSPO's ratio), or one choice of a judgment. Its coefficient includes every mean and weight, so that
micro-batches simply add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from metis.core import Continuation, Judgment

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass
class LossTerms:
    """The loss terms of one row, as a sparse matrix over its target log-probabilities.

    Entry k adds `scale[k]` times target `target[k]` to term `term[k]`. `old` are the old
    log-probabilities of the targets; None means on-policy, a ratio of 1. Without `clip` the
    objective is advantage * log-probability. With `offset` the terms are the choices of one
    judgment: ratios are of the softmax over the choices (plus offsets), so that only the choice,
    not the format, is trained.
    """

    targets: int
    target: Integers
    term: Integers
    scale: Floats
    advantage: Floats
    coefficient: Floats
    old: Floats | None
    clip: bool
    offset: Floats | None = None


def token_terms(
    advantage: float, count: int, coefficient: float, old: Floats | None, clip: bool
) -> LossTerms:
    """One term per token, all with the same advantage and coefficient."""
    each, one = np.arange(count), np.ones(count)
    return LossTerms(count, each, each, one, advantage * one, coefficient * one, old, clip)


def sequence_term(
    advantage: float, count: int, coefficient: float, old: Floats | None
) -> LossTerms:
    """One term, the mean over the tokens: GSPO's ratio (Zheng et al., arXiv 2507.18071)."""
    each, one = np.arange(count), np.ones(1)
    scale = np.full(count, 1.0 / count)
    return LossTerms(
        count, each, 0 * each, scale, advantage * one, coefficient * one, old, clip=True
    )


def choice_terms(
    paths: Sequence[Sequence[int]], rows: Sequence[tuple[Judgment, Continuation]]
) -> LossTerms:
    """One term per choice of a judgment, a path in the token tree."""
    advantage = np.array([judgment.advantage for judgment, _ in rows])
    coefficient = np.array([judgment.weight for judgment, _ in rows])
    clip = rows[0][0].clip
    offset = np.array([choice.offset for _, choice in rows]) if clip else None
    target = np.concatenate([np.asarray(path, dtype=np.int64) for path in paths])
    term = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
    count, one = int(target.max()) + 1, np.ones(len(target))
    return LossTerms(count, target, term, one, advantage, coefficient, None, clip, offset)


def surrogate_loss(
    logprobs: torch.Tensor, rows: Sequence[LossTerms], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """-(sum of coefficient * clipped surrogate) over all terms, and how many were clipped."""

    def column(values: Sequence[NDArray[Any]], kind: torch.dtype) -> torch.Tensor:
        return torch.tensor(np.concatenate(values), dtype=kind, device=logprobs.device)

    first_target = np.cumsum([0, *(row.targets for row in rows)])
    first_term = np.cumsum([0, *(len(row.advantage) for row in rows)])
    targets = column([r.target + at for r, at in zip(rows, first_target, strict=False)], torch.long)
    terms = column([r.term + at for r, at in zip(rows, first_term, strict=False)], torch.long)
    scale = column([row.scale for row in rows], torch.float32)
    given = [np.full(row.targets, np.nan) if row.old is None else row.old for row in rows]
    old = column(given, torch.float32)
    old = torch.where(torch.isnan(old), logprobs.detach(), old)

    def total(values: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros(int(first_term[-1]), device=logprobs.device)
        return zero.index_add(0, terms, values[targets] * scale)

    normalised = _normaliser(rows, logprobs.device)
    now = normalised(total(logprobs))
    advantage = column([row.advantage for row in rows], torch.float32)
    coefficient = column([row.coefficient for row in rows], torch.float32)
    clip = column([np.full(len(row.advantage), row.clip) for row in rows], torch.bool)
    log_ratio = now - normalised(total(old))
    objective, moved = term_objective(now, log_ratio, advantage, clip, low, high)
    return -(coefficient * objective).sum(), moved.float().sum()


def term_objective(
    now: torch.Tensor,
    log_ratio: torch.Tensor,
    advantage: torch.Tensor,
    clip: torch.Tensor,
    low: float,
    high: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The objective of each term, and whether it was clipped.

    With `clip` it is the clipped surrogate, otherwise advantage * log-probability (Eq. 9).
    """
    ratio = torch.exp(log_ratio)
    bounded = torch.clamp(ratio, 1 - low, 1 + high)
    surrogate = torch.minimum(ratio * advantage, bounded * advantage)
    objective = torch.where(clip, surrogate, advantage * now)
    return objective, (surrogate < ratio * advantage) & clip


def _normaliser(
    rows: Sequence[LossTerms], device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Log-softmax over the terms of each row with offsets; identity for other rows."""
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


def kl_loss(
    logprobs: torch.Tensor, reference: torch.Tensor, coefficient: torch.Tensor
) -> torch.Tensor:
    """The k3 estimator of KL(policy || reference), weighted per token and summed."""
    difference = reference - logprobs
    return (coefficient * (torch.exp(difference) - difference - 1)).sum()
