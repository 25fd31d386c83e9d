"""Cost ratios, their intervals, and a test that claims what it should."""

import numpy as np
import pytest

from metis.compare.inference import (
    LEVEL,
    Runs,
    cost_to_best,
    cost_to_common_best,
    cost_to_own_best,
    crossing,
    improves,
    least_p,
    log_speed,
    p_value,
    seeds_to_settle,
    smoothed,
)
from metis.core import Progress
from metis.core.drive import drive
from metis.curricula import CURRICULA
from metis.engines.simulated import Simulation, build


def rng():
    return np.random.default_rng(0)


def made(slopes, cost=1.0, tests=9):
    """Runs whose accuracy grows by a slope from test to test, up to 1."""
    places = np.arange(tests)
    accuracy = np.array([np.minimum(1.0, slope * places) for slope in slopes])
    return Runs(accuracy, np.tile(cost * places, (len(slopes), 1)), tuple(range(len(slopes))))


def test_a_curve_is_smoothed_over_three_tests_but_before_training():
    assert smoothed(np.array([0.0, 3.0, 6.0, 0.0])).tolist() == [0.0, 3.0, 3.0, 3.0]


def test_a_crossing_is_interpolated_and_infinite_where_there_is_none():
    curves = np.array([[0.0, 0.5, 1.0], [0.0, 0.0, 0.2], [0.6, 0.7, 0.8]])
    costs = np.array([[0.0, 10.0, 20.0]] * 3)
    assert crossing(curves, costs, np.full(3, 0.6)).tolist() == [12.0, np.inf, 0.0]


def test_twice_the_slope_takes_half_the_cost():
    slow, fast = made([0.02, 0.02], tests=40), made([0.04, 0.04], tests=40)
    assert log_speed(fast, slow) == pytest.approx(np.log(0.5), abs=0.03)
    assert log_speed(slow, fast) == -log_speed(fast, slow)
    ratio = cost_to_best(fast, slow, rng())
    assert ratio.value == ratio.low == ratio.high == pytest.approx(0.5, abs=0.02)
    assert cost_to_best(made([0.01, 0.01]), slow, rng()).value == np.inf
    assert cost_to_own_best(fast, slow, rng()).value == pytest.approx(26 / 39)


def test_a_baseline_that_does_not_improve_gives_no_ratio():
    falling = Runs(made([0.1, 0.1]).accuracy[:, ::-1], made([0.1, 0.1]).cost, (0, 1))
    assert np.isnan(cost_to_best(made([0.2, 0.2]), falling, rng()).value)
    assert np.isnan(cost_to_own_best(made([0.2, 0.2]), falling, rng()).value)
    assert np.isnan(cost_to_common_best(made([0.2, 0.2]), falling, rng()).value)
    assert not improves(falling) and improves(made([0.2, 0.2]))


def test_an_arm_that_is_best_before_training_has_no_time_to_its_best():
    falling = Runs(made([0.1, 0.1]).accuracy[:, ::-1], made([0.1, 0.1]).cost, (0, 1))
    assert np.isnan(cost_to_own_best(falling, made([0.2, 0.2]), rng()).value)


def test_arms_of_different_lengths_are_compared_where_both_have_been():
    """Twice the slope for a third of the tests."""
    short, long = made([0.04, 0.04], tests=14), made([0.02, 0.02], tests=40)
    assert cost_to_common_best(short, long, rng()).value == pytest.approx(0.5, abs=0.03)


def test_one_run_has_no_interval():
    assert np.isnan(cost_to_best(made([0.2]), made([0.1]), rng()).low)
    assert seeds_to_settle(made([0.2]), made([0.1]), rng()) is None


def test_p_is_the_share_of_relabellings_that_differ_as_much():
    slow, fast = made([0.10, 0.11, 0.12]), made([0.20, 0.21, 0.22])
    assert p_value(fast, slow, rng()) == pytest.approx(2 / 20) == least_p(fast, slow)
    assert p_value(slow, slow, rng()) == 1.0
    many = made(np.linspace(0.1, 0.12, 10)), made(np.linspace(0.2, 0.22, 10))
    assert p_value(*many, rng()) < 0.01


def test_seeds_to_settle_falls_with_the_effect():
    noisy = [0.08, 0.10, 0.12]
    near, far = made([s * 1.1 for s in noisy]), made([s * 2 for s in noisy])
    assert seeds_to_settle(far, made(noisy), rng()) == 4
    few = Runs(near.accuracy, near.cost, (7, 8, 9))
    needed = seeds_to_settle(few, made(noisy), rng())
    assert needed is None or needed > 4


@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_seeds_that_would_settle_it_are_more_than_there_are(count):
    one, other = made([0.2] * count), made([0.1] * count)
    assert seeds_to_settle(one, other, rng()) == max(4, count + 1)


@pytest.fixture(scope="module")
def bank():
    """Runs of one curriculum on the simulated engine that differ by their seed alone."""
    accuracy = []
    for seed in range(40):
        engine, pool = build(Simulation(prompts=400, heldout=50), seed=seed, data_seed=0)
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
        baseline = Runs(bank[picked[:5]], cost, tuple(range(5)))
        claimed += p_value(Runs(bank[picked[5:]], cost, (5, 6, 7, 8, 9)), baseline, rng()) <= LEVEL
        faster = Runs(bank[picked[5:]], cost / 1.5, (5, 6, 7, 8, 9))
        found += p_value(faster, baseline, rng()) <= LEVEL
    assert 0.03 <= claimed / repetitions <= 0.07
    assert found / repetitions >= 0.9
