"""The prediction of METIS's rollouts: a line through measured training sets, and its interval."""

import math

import numpy as np
import pytest

from metis.surveys.facts import Share
from metis.surveys.measured import GAINS, Cost, Gain
from metis.surveys.prediction import ADDITIONS, least_share, line, predict


def gains(*pairs):
    return [Gain("", True, share, Cost(ratio, ratio, 1.0)) for share, ratio in pairs]


def test_training_sets_on_a_line_predict_the_next_one_exactly():
    exact = gains((0.01, 0.2), (0.04, 0.4), (0.09, 0.6), (0.16, 0.8))
    assert line(0.0225, exact) == pytest.approx((0.3, 0.3, 0.3))


def test_the_interval_is_that_of_one_further_training_set():
    seen = gains((0.01, 0.3), (0.04, 0.3), (0.09, 0.7), (0.16, 0.8), (0.25, 0.7))
    x, y = np.log([(gain.informative, gain.cost.rollouts) for gain in seen]).T
    design = np.column_stack([np.ones(5), x])
    fitted, *_ = np.linalg.lstsq(design, y, rcond=None)
    at = np.array([1.0, math.log(0.05)])
    residual = ((y - design @ fitted) ** 2).sum() / 3
    spread = residual * (1 + at @ np.linalg.inv(design.T @ design) @ at)
    half = 3.182 * math.sqrt(spread)
    middle = at @ fitted
    assert line(0.05, seen) == pytest.approx(np.exp([middle, middle - half, middle + half]))
    wider = 3.182 * math.sqrt(spread + (fitted[1] * 0.5) ** 2)
    assert line(0.05, seen, 0.5).high == pytest.approx(math.exp(middle + wider))


def test_nothing_is_predicted_beyond_what_was_measured():
    seen = gains((0.01, 0.3), (0.04, 0.3), (0.09, 0.7))
    assert line(0.9, seen) == line(0.09, seen) and line(0.001, seen) == line(0.01, seen)
    assert predict(Share.of(0, 100), ADDITIONS) is None
    few, many = Share.of(5, 100), Share.of(30, 100)
    assert few.value < least_share("math") < many.value
    assert predict(few, "math") is None and predict(few, ADDITIONS) is not None
    assert predict(many, "math") == predict(many, ADDITIONS)


def test_a_small_sample_widens_the_interval():
    small, large = (predict(Share.of(3 * n, 10 * n), "math") for n in (1, 100))
    assert small.rollouts == large.rollouts
    assert small.low < large.low < large.high < small.high


def test_what_was_not_seen_on_mathematics_is_not_claimed_there():
    mathematics = [gain for gain in GAINS if not gain.additions]
    assert least_share("math") == min(gain.informative for gain in mathematics)
    for percent in range(19, 100):
        assert predict(Share.of(10 * percent, 1000), "math").high > 1
