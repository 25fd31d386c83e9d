"""Differences of accuracy between variants: over a whole run, or at equal cost.

Runs and problems are resampled together where all runs of both variants are tested on the same
problems. Where each run has its own, they are resampled with it.
"""

from typing import NamedTuple

import numpy as np

from metis.comparisons.crossing import Floats
from metis.comparisons.measures import MeasuredVariant
from metis.comparisons.significance import BootstrapInterval, difference, p_of_difference

CROSSED, RUNS = "runs and problems", "runs"


class AtCost(NamedTuple):
    """The accuracies of a variant and its baseline at a cost, their difference, and its p."""

    cost: float
    variant: float
    baseline: float
    apart: BootstrapInterval
    p: float


class _Weighed(NamedTuple):
    """A variant with a weight for each validation of each run."""

    variant: MeasuredVariant
    weights: Floats

    @property
    def accuracy(self) -> Floats:
        return np.asarray((self.weights * self.variant.accuracy).sum(axis=1))


def above(
    variant: MeasuredVariant, baseline: MeasuredVariant, rng: np.random.Generator
) -> tuple[BootstrapInterval, str]:
    """The difference of accuracies averaged over the tests, which both variants have alike; and
    what was resampled."""
    one, other = (
        _Weighed(each, np.full(each.accuracy.shape, 1 / len(each.steps)))
        for each in (variant, baseline)
    )
    return _difference(one, other, rng)


def at_equal_cost(
    variant: MeasuredVariant, baseline: MeasuredVariant, axis: str, rng: np.random.Generator
) -> AtCost:
    """Accuracies at the largest cost that all runs of both variants have come to."""
    cost = min(float(each.spent[axis][:, -1].min()) for each in (variant, baseline))
    one, other = (
        _Weighed(each, _between_tests(each.spent[axis], cost)) for each in (variant, baseline)
    )
    apart, _ = _difference(one, other, rng)
    mine, its = one.accuracy, other.accuracy
    p = p_of_difference(mine.tolist(), its.tolist(), rng)
    return AtCost(cost, float(mine.mean()), float(its.mean()), apart, p)


def _between_tests(spent: Floats, cost: float) -> Floats:
    """The weights by which the tests of each run give its accuracy at a cost, interpolated."""
    alone = np.eye(spent.shape[1])
    return np.array([[np.interp(cost, run, test) for test in alone] for run in spent])


def _difference(
    one: _Weighed, other: _Weighed, rng: np.random.Generator
) -> tuple[BootstrapInterval, str]:
    """The difference of two weighted accuracies."""
    mine, its = one.variant.problems, other.variant.problems
    if mine is not None and its is not None and mine.names == its.names:
        ours = np.einsum("rt,rtp->rp", one.weights, mine.rewards)
        theirs = np.einsum("rt,rtp->rp", other.weights, its.rewards)
        return difference(ours, theirs, rng, mine.sets), CROSSED
    return difference(one.accuracy[:, None], other.accuracy[:, None], rng), RUNS
