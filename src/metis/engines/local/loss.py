"""The loss: METIS, Eq. 2 for rollouts and Eq. 9 for judgments, in one form.

A loss is a sum over units. A unit is a weighted sum of token log-probabilities: a token, a whole
sequence (the sequence ratio of GSPO), or one choice of a judgment. Each has an advantage and a
coefficient that carries every mean and weight, so that micro-batches only have to add up.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Units:
    """How the log-probabilities of one row's targets enter the loss.

    `members` lists (target, unit, scale): what each unit sums up. `old` is the log-probability of
    each target under the policy that wrote it; None means the present one, a ratio of 1.
    """

    members: list[tuple[int, int, float]]
    advantage: Floats
    coefficient: Floats
    old: Floats | None
    clip: bool


def tokens(advantage: float, count: int, share: float, old: Floats | None, clip: bool) -> Units:
    """Every token a unit of the same advantage, each with the coefficient `share`."""
    return Units(
        members=[(i, i, 1.0) for i in range(count)],
        advantage=np.full(count, advantage),
        coefficient=np.full(count, share),
        old=old,
        clip=clip,
    )


def sequence(advantage: float, count: int, share: float, old: Floats | None) -> Units:
    """The mean over the tokens as one unit: GSPO's ratio (Zheng et al., arXiv 2507.18071)."""
    members = [(i, 0, 1.0 / count) for i in range(count)]
    return Units(members, np.array([advantage]), np.array([share]), old, clip=True)


def bundle_loss(
    logprobs: torch.Tensor, rows: list[Units], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """-(sum of coefficient * objective) over all units of a bundle, and the share it clipped."""
    device = logprobs.device
    now = _units(logprobs, rows)
    targets = _per_target(rows, logprobs)
    before = _units(targets, rows)

    def column(values: list[Floats]) -> torch.Tensor:
        return torch.tensor(np.concatenate(values), dtype=torch.float32, device=device)

    advantage = column([row.advantage for row in rows])
    coefficient = column([row.coefficient for row in rows])
    bounded = column([np.full(len(row.advantage), float(row.clip)) for row in rows]) > 0
    ratio = torch.exp(now - before)
    clipped = torch.clamp(ratio, 1 - low, 1 + high)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    objective = torch.where(bounded, surrogate, advantage * now)
    moved = (surrogate < ratio * advantage) & bounded
    return -(coefficient * objective).sum(), moved.float().sum()


def kl_loss(logprobs: torch.Tensor, reference: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """The k3 estimate of KL(policy || reference), summed with a coefficient per token."""
    difference = reference - logprobs
    return (share * (torch.exp(difference) - difference - 1)).sum()


def _units(logprobs: torch.Tensor, rows: list[Units]) -> torch.Tensor:
    """Sum the targets of each unit."""
    source, unit, scale = [], [], []
    targets = units = 0
    for row in rows:
        for target, index, weight in row.members:
            source.append(targets + target)
            unit.append(units + index)
            scale.append(weight)
        targets += 1 + max(target for target, _, _ in row.members)
        units += len(row.advantage)
    device = logprobs.device
    weighted = logprobs[torch.tensor(source, device=device)] * torch.tensor(scale, device=device)
    total = torch.zeros(units, device=device)
    return total.index_add(0, torch.tensor(unit, device=device), weighted)


def _per_target(rows: list[Units], logprobs: torch.Tensor) -> torch.Tensor:
    """The old log-probability of every target: what was given, else the present one."""
    parts, start = [], 0
    for row in rows:
        count = 1 + max(target for target, _, _ in row.members)
        present = logprobs[start : start + count].detach()
        given = None if row.old is None else torch.tensor(row.old, dtype=torch.float32)
        parts.append(present if given is None else given.to(present.device))
        start += count
    return torch.cat(parts)
