"""Accuracies at equal cost, computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from metis.comparisons.accuracy import at_equal_cost
from metis.comparisons.measures import AXES, MeasuredVariant, Problems


def measured(accuracy, cost):
    """Runs by their accuracies and their costs, which are the same on every axis."""
    accuracy, cost = np.array(accuracy), np.array(cost, dtype=float)
    seeds, steps = (tuple(range(count)) for count in accuracy.shape)
    return MeasuredVariant("variant", seeds, (), steps, accuracy, dict.fromkeys(AXES, cost))


def rng():
    return np.random.default_rng(0)


VARIANT = measured([[0.0, 0.4, 0.8], [0.0, 0.2, 0.4]], [[0, 10, 20], [0, 20, 30]])
BASELINE = measured([[0.0, 0.5], [0.0, 0.1]], [[0, 25], [0, 50]])


def test_the_cost_is_the_largest_that_every_run_has_come_to():
    """20, at the end of the variant's first run; its second has 0.2 there, the baseline's are at
    0.4 and 0.04. Of the six ways to name two of these four runs, one and its mirror image are as
    far apart as 0.5 and 0.22, and so are two more."""
    equal = at_equal_cost(VARIANT, BASELINE, "rollouts", rng())
    assert equal.cost == 20
    assert (equal.variant, equal.baseline) == pytest.approx((0.5, 0.22))
    assert equal.apart.value == pytest.approx(0.28)
    assert equal.p == pytest.approx(4 / 6)


def test_runs_are_resampled_unpaired():
    """The ends are the variant's lower run against the baseline's higher, and the other way
    round."""
    apart = at_equal_cost(VARIANT, BASELINE, "rollouts", rng()).apart
    assert (apart.low, apart.high) == pytest.approx((0.2 - 0.4, 0.8 - 0.04))


def test_problems_are_resampled_with_runs_where_all_are_tested_on_the_same():
    """Both runs of a variant are alike, and a quarter of the way at 5: one problem is 0.25 above
    the baseline's, the other 0.25 below; those drawn are the first twice, both, or the second
    twice."""

    def tested(first, second, names=("a", "b")):
        rewards = np.array([[[0.0, 0.0], [first, second]]] * 2)
        one = measured(rewards.mean(axis=2), [[0, 20]] * 2)
        return replace(one, problems=Problems(names, ("", ""), rewards))

    variant, baseline = tested(1.0, 0.0), tested(0.0, 1.0)
    variant = replace(variant, spent=dict.fromkeys(AXES, np.array([[0.0, 20.0]] * 2)))
    short = replace(baseline, spent=dict.fromkeys(AXES, np.array([[0.0, 5.0]] * 2)))
    equal = at_equal_cost(variant, short, "steps", rng())
    assert (equal.variant, equal.baseline) == pytest.approx((0.125, 0.5))
    assert (equal.apart.low, equal.apart.high) == pytest.approx((-1.0, 0.25))
    others = replace(short, problems=tested(0.0, 1.0, ("a", "c")).problems)
    apart = at_equal_cost(variant, others, "steps", rng()).apart
    assert (apart.low, apart.high) == pytest.approx((-0.375, -0.375))
