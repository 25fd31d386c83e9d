"""Offsets: what all prompts have in common is learnt outside the network."""

import numpy as np
import pytest
from metis.curricula.judge.offsets import LARGEST, moved
from metis.curricula.judge.scale import VARIANCE

from metis.signal import softmax


def rows(count, point, seed=0):
    logprobs = np.random.default_rng(seed).normal(-2, 1, (count, 11))
    return logprobs, np.tile(VARIANCE.two_hot(point), (count, 1))


def test_one_move_by_hand():
    logprobs, targets = np.log([[0.5, 0.25, 0.25]]), np.array([[0.0, 1.0, 0.0]])
    raw = 0.5 * (np.log([1.0, 2.0, 1.0]) - np.log([1.5, 1.25, 1.25]))  # smoothed by 1 of 1 rows
    assert moved([], [(0, logprobs, targets)]) == pytest.approx((raw - raw.mean()).tolist())


def test_repeated_moves_bring_the_mean_prediction_to_the_mean_outcome():
    low, high = rows(60, 0.0, 1), rows(60, 0.25, 2)
    offsets: list[float] = []
    for _ in range(60):
        offsets = moved(offsets, [(0, *low), (1, *high)])
    everything = np.concatenate([low[0], high[0]])
    mean = softmax(everything + np.array(offsets)).mean(axis=0)
    assert mean[[0, 10]] == pytest.approx([0.5, 0.5], abs=0.05)


def test_they_sum_to_zero_and_stay_bounded_whatever_happens():
    offsets: list[float] = []
    for _ in range(200):
        offsets = moved(offsets, [(0, *rows(200, 0.0))])
        assert max(map(abs, offsets)) <= LARGEST and np.isfinite(offsets).all()
    assert np.mean(offsets) == pytest.approx(0.0, abs=0.5)
    assert moved(offsets, []) == offsets


def test_a_run_of_dead_steps_does_not_bury_the_rest_of_the_scale():
    """The study saw 0.095 fall to 0.00006 in five steps without smoothing by the rows."""
    offsets: list[float] = []
    for step in range(5):
        offsets = moved(offsets, [(s, *rows(16, 0.0, s)) for s in range(step + 1)])
    v_hat = softmax(rows(16, 0.0, 9)[0] + np.array(offsets)) @ np.array(VARIANCE.values)
    assert v_hat.mean() > 0.0005
