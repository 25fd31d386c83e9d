"""Where curves reach a level: raw and kept by the next test, or smoothed where tests are many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.comparisons.crossing import MANY, alike, kept, raw, smoothed


def one(accuracy, every=10.0):
    """A single curve, tested at every so much of its cost."""
    curve = np.array([accuracy])
    return raw(curve, every * np.arange(curve.shape[1])[None])


def test_a_level_that_the_next_test_loses_is_not_reached():
    """0.6 is crossed at 15 first, and kept from 35 on."""
    curve = one([0.2, 0.5, 0.7, 0.5, 0.7, 0.7])
    assert curve.best.tolist() == [0.7]
    assert curve.cost_of(np.array([0.6])).tolist() == [35.0]
    assert curve.cost_of(np.array([0.5])).tolist() == [10.0]


def test_the_last_test_only_confirms():
    curve = one([0.0, 0.2, 0.4, 0.8])
    assert curve.best.tolist() == [0.4]
    assert curve.cost_of(np.array([0.5])).tolist() == [np.inf]
    assert kept(np.array([0.0, 0.8])).tolist() == [0.0, -np.inf]


def test_a_crossing_is_interpolated_and_infinite_where_there_is_none():
    curves = np.array([[0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.2, 0.2], [0.6, 0.7, 0.8, 0.8]])
    costs = np.array([[0.0, 10.0, 20.0, 30.0]] * 3)
    assert raw(curves, costs).cost_of(np.full(3, 0.6)).tolist() == [12.0, np.inf, 0.0]


def test_a_curve_rises_only_where_it_stays_above_its_start():
    assert not one([0.3, 0.9, 0.3, 0.9]).rise[0]
    assert one([0.3, 0.4, 0.4]).rise[0]


def test_a_curve_is_smoothed_over_three_tests_but_before_training():
    assert smoothed(np.array([0.0, 3.0, 6.0, 0.0])).tolist() == [0.0, 3.0, 3.0, 3.0]


def jump(tests, whole=60):
    """A curve that jumps from 0 to 1 after so many tests."""
    return [0.0] * tests + [1.0] * (whole - tests)


@pytest.mark.parametrize(
    ("variant", "baseline", "smooth"),
    [(MANY, 40, True), (MANY - 1, 40, False), (40, MANY, True), (40, MANY - 1, False)],
)
def test_both_are_smoothed_where_both_have_many_tests_before_the_level(variant, baseline, smooth):
    pair = alike(one(jump(variant)), one(jump(baseline)))
    assert pair.smooth.tolist() == [smooth]
    for curves, tests in ((pair.variant, variant), (pair.baseline, baseline)):
        around = curves.accuracy[0, tests - 1 : tests + 1].tolist()
        assert around == pytest.approx([1 / 3, 2 / 3] if smooth else [0.0, 1.0])


def test_few_tests_are_not_smoothed_into_an_earlier_crossing():
    """Averaged over three, the test after the level would count at the level's own."""
    slow, fast = one([0.0, 0.3, 0.4, 0.4]), one([0.0, 0.1, 0.2, 0.9, 0.9])
    pair = alike(fast, slow)
    assert pair.common_best.tolist() == [0.4]
    mine, its = pair.costs_of(pair.common_best)
    assert mine.tolist() == [pytest.approx(20 + 10 * 2 / 7)] and its.tolist() == [20.0]


curves = st.lists(st.floats(0, 1, width=16), min_size=3, max_size=40)


@given(curves, curves)
def test_what_both_reach_costs_both_something_finite(variant, baseline):
    pair = alike(one(variant), one(baseline))
    for each in (pair.variant, pair.baseline):
        cost = each.cost_of(pair.common_best)
        assert np.isfinite(cost).all() and (cost >= 0).all()
        assert (cost <= each.cost[:, -1]).all()


@given(curves, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_level_never_costs_less(accuracy, first, second):
    curve = one(accuracy)
    low, high = (curve.cost_of(np.array([level]))[0] for level in sorted((first, second)))
    assert low <= high + 1e-9
