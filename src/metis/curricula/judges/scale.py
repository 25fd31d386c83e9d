"""The judge's allowed answers: the eleven variances of the paper, or passes out of eight.

The outcome of a group is a point on the scale. Its target is two-hot: split between the two
neighbouring answers so that the mean is the point (Farebrother et al., arXiv 2403.03950).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

GRID = (0.00, 0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.15, 0.18, 0.20, 0.25)
"""The values of the paper's prompt. Others in range are also valid in a reply."""

ATTEMPTS = 8
"""Attempts in the question about passes, independent of the group size."""


@dataclass(frozen=True)
class AnswerScale:
    """Allowed answers: texts, points on the scale, and predicted variances."""

    name: str
    choices: tuple[str, ...]
    points: tuple[float, ...]
    values: tuple[float, ...]

    def two_hot(self, point: float) -> NDArray[np.float64]:
        """The two-hot distribution whose mean is the point."""
        points = np.array(self.points)
        point = float(np.clip(point, points[0], points[-1]))
        target = np.zeros(len(points))
        above = int(np.searchsorted(points, point))
        if points[above] == point:
            target[above] = 1.0
            return target
        low, high = points[above - 1], points[above]
        target[above] = (point - low) / (high - low)
        target[above - 1] = 1.0 - target[above]
        return target

    @cached_property
    def labels(self) -> list[str]:
        """The answers as logged: 0.25, or 3."""
        return [f"{p:.2f}" for p in self.points] if self is VARIANCE else list(self.choices)

    def answer(self, point: float) -> str:
        """The allowed answer nearest to a point, as an exemplar gives it."""
        nearest = int(np.argmin(np.abs(np.array(self.points) - point)))
        return self.choices[nearest] + ("}" if self is VARIANCE else "")


VARIANCE = AnswerScale("variance", tuple(rf"\boxed{{{value:.2f}" for value in GRID), GRID, GRID)
"""Choices end at their last digit: later tokens do not depend on the value."""

PASSES = AnswerScale(
    "passes",
    tuple(str(count) for count in range(ATTEMPTS + 1)),
    tuple(float(count) for count in range(ATTEMPTS + 1)),
    tuple(count / ATTEMPTS * (1 - count / ATTEMPTS) for count in range(ATTEMPTS + 1)),
)
"""Single-token choices: one position has the whole distribution. For binary rewards only."""
