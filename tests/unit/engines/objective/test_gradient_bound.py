"""The bound on the judge's gradient, by hand."""

import math

import pytest

from metis.engines.objective.gradient_bound import GradientBound


def test_before_any_policy_gradient_a_tenth_of_the_clip_counts():
    bound = GradientBound(2.0)
    assert bound.reference == pytest.approx(0.2)
    assert bound.scale(0.5, 1.0) == pytest.approx(0.1)
    assert GradientBound(0.0).reference == pytest.approx(0.1), "no clip counts as 1"


def test_the_mean_takes_only_steps_that_have_a_policy_gradient():
    bound = GradientBound(1.0)
    for norm in (0.5, 0.0, math.inf, math.nan, 1.0):
        bound.note(norm)
    assert bound.mean == pytest.approx(0.9 * 0.5 + 0.1 * 1.0)
    assert bound.reference == bound.mean


def test_a_gradient_within_the_bound_is_left_as_it_is():
    bound = GradientBound()
    bound.note(0.8)
    assert bound.scale(1.0, 0.5) == 1.0 == bound.scale(1.0, 0.0)
    assert 2.0 * bound.scale(0.25, 2.0) == pytest.approx(0.2)


def test_it_is_saved():
    bound, other = GradientBound(), GradientBound()
    bound.note(0.3)
    other.load_state_dict(bound.state_dict())
    assert other == bound
