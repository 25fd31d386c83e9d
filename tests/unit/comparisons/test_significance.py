"""Cost ratios and differences, their intervals, and a test that claims what it should."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metis.comparisons.significance import (
    LEVEL,
    Runs,
    cost_to_best,
    cost_to_common_best,
    cost_to_own_best,
    difference,
    least_p,
    log_speed,
    observed,
    p_of_difference,
    p_value,
)
from metis.core import Progress
from metis.core.drive import drive
from metis.curricula import CURRICULA
from metis.engines.simulated import Simulation, build_simulation


def rng():
    return np.random.default_rng(0)


def made(slopes, cost=1.0, tests=9):
    """Runs whose accuracy grows by a slope from test to test, up to 1."""
    places = np.arange(tests)
    accuracy = np.array([np.minimum(1.0, slope * places) for slope in slopes])
    return Runs(accuracy, np.tile(cost * places, (len(slopes), 1)))


def test_twice_the_slope_takes_half_the_cost():
    """The best that is kept is that of the last test but one."""
    slow, fast = made([0.02, 0.02], tests=40), made([0.04, 0.04], tests=40)
    assert log_speed(fast, slow) == pytest.approx(np.log(0.5))
    assert log_speed(slow, fast) == -log_speed(fast, slow)
    ratio = cost_to_best(fast, slow, rng())
    assert ratio.value == ratio.low == ratio.high == pytest.approx(0.5)
    assert cost_to_best(made([0.01, 0.01]), slow, rng()).value == np.inf
    assert cost_to_own_best(fast, slow, rng()).value == pytest.approx(25 / 38)


def test_a_baseline_that_does_not_improve_gives_no_ratio():
    falling = Runs(made([0.1, 0.1]).accuracy[:, ::-1], made([0.1, 0.1]).cost)
    assert np.isnan(cost_to_best(made([0.2, 0.2]), falling, rng()).value)
    assert np.isnan(cost_to_own_best(made([0.2, 0.2]), falling, rng()).value)
    assert np.isnan(cost_to_common_best(made([0.2, 0.2]), falling, rng()).value)
    pair = observed(made([0.2, 0.2]), falling)
    assert pair.variant.rise[0] and not pair.baseline.rise[0]


def test_an_variant_that_is_best_before_training_has_no_time_to_its_best():
    falling = Runs(made([0.1, 0.1]).accuracy[:, ::-1], made([0.1, 0.1]).cost)
    assert np.isnan(cost_to_own_best(falling, made([0.2, 0.2]), rng()).value)


def test_variants_of_different_lengths_are_compared_where_both_have_been():
    """Twice the slope for a third of the tests."""
    short, long = made([0.04, 0.04], tests=14), made([0.02, 0.02], tests=40)
    assert cost_to_common_best(short, long, rng()).value == pytest.approx(0.5)


def test_one_run_has_no_interval():
    assert np.isnan(cost_to_best(made([0.2]), made([0.1]), rng()).low)
    assert np.isnan(difference(np.array([[1.0, 0.0]]), np.zeros((3, 2)), rng(), ["", ""]).low)


def test_runs_of_two_variants_are_not_resampled_in_pairs():
    """Each run has twice the slope of the baseline's: in pairs, no ratio would vary."""
    slopes = [0.02, 0.05]
    ratio = cost_to_common_best(made([2 * s for s in slopes], 1.0), made(slopes, 1.0), rng())
    assert ratio.value == pytest.approx(0.5)
    assert ratio.low == pytest.approx(0.02 / 0.1) and ratio.high == 1.25


def test_p_is_the_share_of_relabellings_that_differ_as_much():
    slow, fast = made([0.10, 0.11, 0.12]), made([0.20, 0.21, 0.22])
    assert p_value(fast, slow, rng()) == pytest.approx(2 / 20) == least_p(3, 3)
    assert p_value(slow, slow, rng()) == 1.0
    many = made(np.linspace(0.1, 0.12, 10)), made(np.linspace(0.2, 0.22, 10))
    assert least_p(10, 10) == 1 / 10_000 <= p_value(*many, rng()) < 0.001


def test_p_of_a_difference_counts_relabellings():
    """Of the 20 ways to name three of these six, 1 + 1 are as far apart; 10.5 is between."""
    assert p_of_difference([4, 5, 6], [1, 2, 3], rng()) == 2 / 20
    assert p_of_difference([4, 5, 3], [1, 2, 6], rng()) == pytest.approx(14 / 20)
    assert p_of_difference([1, 1], [1, 1], rng()) == 1.0


@pytest.mark.parametrize(
    ("variant", "baseline", "least"),
    [(1, 1, 1.0), (1, 3, 1 / 4), (2, 2, 1 / 3), (3, 3, 0.1), (3, 4, 1 / 35), (6, 6, 2 / 924)],
)
def test_the_least_p_of_so_many_runs(variant, baseline, least):
    assert (
        least_p(variant, baseline)
        == pytest.approx(least)
        == pytest.approx(least_p(baseline, variant))
    )
    apart = [2.0**place for place in range(variant + baseline)]
    assert p_of_difference(apart[baseline:], apart[:baseline], rng()) == pytest.approx(least)


numbers = st.lists(st.floats(0, 1, width=16), min_size=1, max_size=6)


@given(numbers, numbers)
def test_no_p_is_below_the_least(variant, baseline):
    p = p_of_difference(variant, baseline, rng())
    assert least_p(len(variant), len(baseline)) - 1e-12 <= p <= 1
    assert p == pytest.approx(p_of_difference(baseline, variant, rng()))


@settings(max_examples=30)
@given(numbers, numbers)
def test_no_p_of_a_speed_is_below_the_least(variant, baseline):
    p = p_value(made(variant), made(baseline), rng())
    assert least_p(len(variant), len(baseline)) - 1e-12 <= p <= 1


def crossed(variant, baseline):
    """All that a bootstrap of two runs of each variant and two problems can draw."""
    twice = list(itertools.product(range(2), repeat=2))
    return [
        np.mean(variant[np.ix_(one, problems)]) - np.mean(baseline[np.ix_(other, problems)])
        for one, other, problems in itertools.product(twice, twice, twice)
    ]


def test_a_difference_is_resampled_over_runs_and_problems_at_once():
    variant, baseline = np.array([[1.0, 0.3], [0.7, 0.2]]), np.array([[0.5, 0.4], [0.1, 0.3]])
    seen = difference(variant, baseline, rng(), ["", ""])
    assert seen.value == pytest.approx(0.55 - 0.325)
    expected = np.quantile(crossed(variant, baseline), [0.025, 0.975], method="inverted_cdf")
    assert [seen.low, seen.high] == pytest.approx(expected)
    runs = difference(*(each.mean(axis=1, keepdims=True) for each in (variant, baseline)), rng())
    assert runs.value == pytest.approx(seen.value)
    assert [runs.low, runs.high] == pytest.approx([0.45 - 0.45, 0.65 - 0.2])


def test_an_interval_over_few_runs_alone_is_of_all_samples_there_are():
    """Of two against three runs there are 4 times 27."""
    variant, baseline = np.array([[0.1], [0.45]]), np.array([[0.2], [0.21], [0.3]])
    every = [
        np.mean(variant[list(one)]) - np.mean(baseline[list(other)])
        for one in itertools.product(range(2), repeat=2)
        for other in itertools.product(range(3), repeat=3)
    ]
    expected = [sorted(every)[2], sorted(every)[-3]]
    for seed in range(3):
        seen = difference(variant, baseline, np.random.default_rng(seed))
        assert [seen.low, seen.high] == pytest.approx(expected)


def test_problems_are_drawn_within_their_set_and_sets_weigh_the_same():
    """One set of one problem that always differs by 1, one of three that never differ."""
    variant, baseline = np.array([[1.0, 0, 0, 0]] * 2), np.zeros((2, 4))
    assert difference(variant, baseline, rng(), list("abbb")) == (0.5, 0.5, 0.5)
    loose = difference(variant, baseline, rng(), list("aaaa"))
    assert loose.value == 0.25 and loose.low == 0.0 and loose.high >= 0.75


@settings(max_examples=30)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 6), st.integers(0, 1000))
@example(2, 3, 2, 401)
def test_a_difference_exchanged_is_its_negative(runs, others, problems, seed):
    draw = np.random.default_rng(seed)
    variant, baseline = draw.random((runs, problems)), draw.random((others, problems))
    forth = difference(variant, baseline, rng(), [""] * problems)
    back = difference(baseline, variant, rng(), [""] * problems)
    assert forth == pytest.approx((-back.value, -back.high, -back.low), abs=1e-9)
    assert forth.low <= forth.value + 1e-9 and forth.value <= forth.high + 1e-9


@settings(max_examples=30)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 1000))
def test_a_cost_exchanged_is_its_inverse(runs, others, seed):
    draw = np.random.default_rng(seed)
    variant, baseline = (made(draw.uniform(0.01, 0.05, count)) for count in (runs, others))
    forth = cost_to_common_best(variant, baseline, rng())
    back = cost_to_common_best(baseline, variant, rng())
    assert forth == pytest.approx((1 / back.value, 1 / back.high, 1 / back.low))


@pytest.fixture(scope="module")
def bank():
    """Runs of one curriculum on the simulated engine that differ by their seed alone."""
    accuracy = []
    for seed in range(40):
        engine, pool = build_simulation(Simulation(prompts=400, heldout=50), seed=seed, data_seed=0)
        curriculum = CURRICULA["uniform"](batch=16, group=8)
        curve = []
        for step in range(36):
            if step % 3 == 0:
                curve.append(np.mean([chance for _, chance in engine.evaluate()]))
            progress = Progress(step, policy=engine.version, seed=seed)
            engine.update(drive(curriculum.step(pool, progress), engine))
        accuracy.append(curve)
    return np.array(accuracy)


def test_a_difference_is_claimed_at_its_level_and_a_true_one_is_found(bank):
    draw, claimed, found, repetitions = np.random.default_rng(1), 0, 0, 1000
    cost = np.tile(3.0 * np.arange(bank.shape[1]), (5, 1))
    for _ in range(repetitions):
        picked = draw.permutation(len(bank))[:10]
        baseline = Runs(bank[picked[:5]], cost)
        claimed += p_value(Runs(bank[picked[5:]], cost), baseline, rng()) <= LEVEL
        faster = Runs(bank[picked[5:]], cost / 1.5)
        found += p_value(faster, baseline, rng()) <= LEVEL
    assert 0.03 <= claimed / repetitions <= 0.07
    assert found / repetitions >= 0.9
