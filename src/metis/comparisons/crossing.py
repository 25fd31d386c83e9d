"""Levels that averaged accuracy curves reach, and their costs by then.

A level is reached at the first test that is at it and whose next test is too: one test alone may be
noise, and the last, which has no next, only confirms. Where both variants of a pair have `MANY`
tests before the level, their curves are averaged over three neighbouring tests instead, but for the
first, which is before training. That moves a crossing by up to one test, which is little only where
there are many. Between tests curves are interpolated.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MANY = 20
"""Tests before a level from which on curves are smoothed: a test is 5% of the way at most."""
FEWEST_TESTS = 3
"""Tests of a pair that a cost is read from: before training, and two of which one keeps a level."""


class Curves(NamedTuple):
    """Curves, one a row, with the accuracy that counts as reached at each test."""

    accuracy: Floats
    reached: Floats
    cost: Floats

    @property
    def best(self) -> Floats:
        return np.asarray(self.reached.max(axis=1))

    @property
    def rise(self) -> NDArray[np.bool_]:
        """True if a curve's best is above its accuracy before training."""
        return np.asarray(self.best > self.accuracy[:, 0] + 1e-12)

    def tests_before(self, levels: Floats) -> NDArray[np.intp]:
        """The number of tests before each level is reached; 0 where it never is."""
        return np.asarray(self._at(levels).argmax(axis=1))

    def cost_of(self, levels: Floats) -> Floats:
        """The cost at which each curve reaches its level; infinite where it never does."""
        rows, first = np.arange(len(self.accuracy)), self.tests_before(levels)
        before = np.maximum(first - 1, 0)
        start, end = self.accuracy[rows, before], self.accuracy[rows, first]
        rise = end - start
        part = np.divide(levels - start, rise, out=np.zeros_like(rise), where=rise > 0).clip(0, 1)
        between = self.cost[rows, before]
        between = between + part * (self.cost[rows, first] - between)
        return np.where(self._at(levels).any(axis=1), between, np.inf)

    def _at(self, levels: Floats) -> NDArray[np.bool_]:
        return np.asarray(self.reached >= levels[:, None] - 1e-12)


class CurvePair(NamedTuple):
    """The curves of a variant and of its baseline, row by row read in the same way."""

    variant: Curves
    baseline: Curves
    smooth: NDArray[np.bool_]

    @property
    def common_best(self) -> Floats:
        """The highest accuracy that both reach."""
        return np.asarray(np.minimum(self.variant.best, self.baseline.best))

    def costs_of(self, levels: Floats) -> tuple[Floats, Floats]:
        return self.variant.cost_of(levels), self.baseline.cost_of(levels)


def raw(accuracy: Floats, cost: Floats) -> Curves:
    """Unsmoothed curves: an accuracy is reached if the next test confirms it."""
    return Curves(accuracy, kept(accuracy), cost)


def kept(accuracy: Floats) -> Floats:
    """Minimum of each test and the next, along the last axis."""
    both = np.minimum(accuracy[..., :-1], accuracy[..., 1:])
    last = [(0, 0)] * (accuracy.ndim - 1) + [(0, 1)]
    return np.pad(both, last, constant_values=-np.inf)


def smoothed(accuracy: Floats) -> Floats:
    """Running mean of three tests, along the last axis; the first test is kept."""
    ends = [(0, 0)] * (accuracy.ndim - 1) + [(1, 1)]
    whole, last = np.pad(accuracy, ends, constant_values=np.nan), accuracy.shape[-1]
    means: Floats = np.nanmean([whole[..., place : place + last] for place in range(3)], axis=0)
    means[..., :1] = accuracy[..., :1]
    return means


def alike(variant: Curves, baseline: Curves) -> CurvePair:
    """Raw curves of two variants, smoothed in the rows where both have many tests before they reach
    the highest accuracy that both reach."""
    level = np.minimum(variant.best, baseline.best)
    tests = np.minimum(variant.tests_before(level), baseline.tests_before(level))
    smooth = np.asarray(tests >= MANY)
    return CurvePair(_smoothed_in(variant, smooth), _smoothed_in(baseline, smooth), smooth)


def _smoothed_in(curves: Curves, rows: NDArray[np.bool_]) -> Curves:
    if not rows.any():
        return curves
    means, chosen = smoothed(curves.accuracy), rows[:, None]
    accuracy = np.where(chosen, means, curves.accuracy)
    return Curves(accuracy, np.where(chosen, means, curves.reached), curves.cost)
