import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.signal import VARIANCE_MAX, advantages, judge_reward, softmax, top_b, variance

deterministic = settings(derandomize=True, deadline=None)
rewards = st.lists(st.floats(0, 1), min_size=2, max_size=32)
scores = st.lists(st.none() | st.floats(allow_nan=False) | st.sampled_from([0.0, 0.1, 0.25]))


@pytest.mark.parametrize(
    ("passes", "expected"),
    [(0, 0.0), (1, 0.109375), (2, 0.1875), (3, 0.234375), (4, 0.25), (7, 0.109375), (8, 0.0)],
)
def test_variance_of_binary_rewards_is_exact(passes, expected):
    assert variance([1.0] * passes + [0.0] * (8 - passes)) == expected


def test_variance_of_continuous_rewards():
    assert variance([0.0, 0.25, 0.5, 1.0]) == pytest.approx(0.13671875)
    assert variance([0.7, 0.7, 0.7]) == pytest.approx(0.0, abs=1e-30)


@pytest.mark.parametrize("too_few", [[], [1.0]])
def test_variance_needs_two_rewards(too_few):
    with pytest.raises(ValueError, match=f"variance of {len(too_few)} reward"):
        variance(too_few)


@deterministic
@given(rewards)
def test_variance_is_the_mean_squared_advantage_and_at_most_a_quarter(values):
    assert variance(values) == pytest.approx(np.mean(advantages(values) ** 2))
    assert 0.0 <= variance(values) <= VARIANCE_MAX + 1e-12


@deterministic
@given(rewards)
def test_advantages_are_centred_on_zero(values):
    assert float(advantages(values).sum()) == pytest.approx(0.0, abs=1e-12)


def test_advantages_are_not_divided_by_the_standard_deviation():
    assert advantages([0.0, 0.0, 0.0, 1.0]).tolist() == [-0.25, -0.25, -0.25, 0.75]
    assert advantages([0.0, 0.0, 0.0, 0.5]).tolist() == [-0.125, -0.125, -0.125, 0.375]


def test_advantages_of_nothing_are_nothing():
    assert advantages([]).tolist() == []


@pytest.mark.parametrize(
    ("v_hat", "v", "expected"),
    [
        (0.12, 0.109375, 0.99819),
        (0.25, 0.234375, 0.99609),
        (0.0, 0.25, 0.0),
        (0.25, 0.0, 0.0),
        (0.25, 0.25, 1.0),
        (0.0, 0.0, 1.0),
    ],
)
def test_judge_reward_of_the_paper(v_hat, v, expected):
    assert round(judge_reward(v_hat, v), 5) == expected


@deterministic
@given(st.floats(0, VARIANCE_MAX), st.floats(0, VARIANCE_MAX))
def test_judge_reward_is_symmetric_and_between_zero_and_one(one, other):
    assert judge_reward(one, other) == judge_reward(other, one)
    assert 0.0 <= judge_reward(one, other) <= 1.0


@deterministic
@given(scores, st.integers(-1, 20), st.none() | st.integers(0, 9))
def test_top_b_takes_the_highest_scores_best_first(values, b, seed):
    chosen = top_b(values, b, None if seed is None else random.Random(seed))
    left = [values[i] for i in range(len(values)) if i not in chosen]
    assert len(chosen) == len(set(chosen)) == min(max(b, 0), len(values))
    keys = [(value is not None, -math.inf if value is None else value) for value in values]
    taken = [keys[i] for i in chosen]
    assert taken == sorted(taken, reverse=True)
    for value in left:
        key = (value is not None, -math.inf if value is None else value)
        assert all(other >= key for other in taken)


def test_top_b_ranks_a_missing_score_below_every_number():
    assert top_b([None, -math.inf, 0.25, -3.0], 4, random.Random(0)) == [2, 3, 1, 0]


def test_top_b_refuses_nan():
    with pytest.raises(ValueError, match="NaN"):
        top_b([0.1, math.nan], 1, None)


def test_top_b_without_a_generator_keeps_the_order_of_equal_scores():
    assert top_b([0.1, 0.2, 0.1, 0.2, None, None], 5, None) == [1, 3, 0, 2, 4]


def test_top_b_favours_no_position_among_equal_scores():
    seeds, candidates, b = 4000, 16, 4
    chosen = Counter(
        i for s in range(seeds) for i in top_b([0.1] * candidates, b, random.Random(s))
    )
    share = b / candidates
    tolerance = 5 * math.sqrt(seeds * share * (1 - share))
    assert all(abs(chosen[i] - seeds * share) < tolerance for i in range(candidates))


def test_top_b_is_fixed_by_its_seed():
    values = [0.1] * 16
    assert top_b(values, 8, random.Random(3)) == top_b(values, 8, random.Random(3))
    assert top_b(values, 8, random.Random(3)) != top_b(values, 8, random.Random(4))


@deterministic
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(-1e3, 1e3))
def test_softmax_is_a_distribution_that_ignores_a_shift(logits, shift):
    probabilities = softmax(logits)
    assert probabilities.sum() == pytest.approx(1.0)
    assert softmax([value + shift for value in logits]) == pytest.approx(probabilities)


def test_softmax_works_on_the_last_axis_without_overflow():
    logits = [[1e4, 1e4], [math.log(3.0), 0.0]]
    assert softmax(logits) == pytest.approx(np.array([[0.5, 0.5], [0.75, 0.25]]))
