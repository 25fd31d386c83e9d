import math
from collections import Counter

import numpy as np
import pytest

from metis import MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine, Group, Trajectory
from metis.curricula.sec import Sec

NOTHING = Trajectory(np.zeros(1, int), np.ones(1, bool), np.zeros(1, np.float32), 0)
REWARDS = {"a": (1.0, 0.0, 0.0, 0.0), "b": (1.0, 1.0, 0.0, 0.0), "c": (1.0, 1.0, 1.0, 1.0)}


class Answers(Engine):
    """Rolls out every prompt of a category to the same rewards."""

    def __init__(self, rewards):
        self.rewards = rewards

    def rollout(self, prompts, n):
        groups = []
        for prompt in prompts:
            rewards = self.rewards[prompt.category]
            failed = n - len(rewards)
            groups.append(Group(prompt, rewards, (NOTHING,) * len(rewards), failed))
        return groups


def make_pool(categories="abc", each=20):
    return Pool([Prompt(f"{c}:{i}", "", c) for c in categories for i in range(each)])


def step(sec, pool, rewards=REWARDS, number=0):
    return drive(sec.step(pool, Progress(number)), Answers(rewards))


def drawn(batch):
    return Counter(group.prompt.category for group in batch.groups)


def test_one_step_by_hand():
    """|A| of 1, 0, 0, 0 is 3/4 and 1/4 three times, mean 3/8, deviation 1/2; of 1, 1, 0, 0 it is
    1/2, deviation sqrt(1/3); four equal rewards have none. Q moves half of the way from 0."""
    for objective, a, b in (("raw", 0.375, 0.5), ("normalised", 0.75, math.sqrt(0.75))):
        sec, pool = Sec(batch=30, group=4, objective=objective), make_pool()
        first = step(sec, pool)
        assert set(drawn(first)) == set("abc")
        assert [first.metrics[f"select/arm_{i}_chance"] for i in range(3)] == [1 / 3] * 3
        assert sec.q == pytest.approx([a / 2, b / 2, 0.0], rel=1e-5)

        second = step(sec, pool, number=1)
        odds = np.exp(np.array([a / 2, b / 2, 0.0]) / 0.4)
        chances = [second.metrics[f"select/arm_{i}_chance"] for i in range(3)]
        assert chances == pytest.approx(odds / odds.sum(), rel=1e-5)
        assert [second.metrics[f"select/arm_{i}_value"] for i in range(3)] == pytest.approx(
            [a / 2, b / 2, 0.0], rel=1e-5
        )
        assert {d.reason: d.score for d in second.decisions}["arm b"] == second.metrics[
            "select/arm_1_value"
        ]
        assert sec.q == pytest.approx([0.75 * a, 0.75 * b, 0.0], rel=1e-5)


@pytest.mark.parametrize(("decay_unseen", "expected"), [(False, 0.6), (True, 0.3)])
def test_an_absent_arm_is_unchanged_or_with_decay_halved(decay_unseen, expected):
    sec, pool = Sec(batch=4, group=4, draw="step", decay_unseen=decay_unseen), make_pool()
    step(sec, pool)
    sec.q = [0.6, 0.6, 0.6]
    (present,) = drawn(step(sec, pool, number=1))
    for arm, name in enumerate("abc"):
        if name != present:
            assert sec.q[arm] == expected
        else:
            assert sec.q[arm] != 0.6


@pytest.mark.parametrize("rewards", [(), (1.0,)])
def test_an_arm_whose_rollouts_failed_is_absent(rewards):
    sec, pool = Sec(batch=30, group=4), make_pool()
    step(sec, pool)
    before = sec.q
    step(sec, pool, REWARDS | {"b": rewards}, 1)
    assert sec.q[1] == before[1]
    assert sec.q[0] > before[0]


def test_every_rollout_of_an_arm_counts_the_same():
    sec, pool = Sec(batch=2, group=4, alpha=1.0, objective="raw", arms=1), make_pool("ab", 1)
    sec.names, sec.arm_of = ["both"], np.array([0, 0])
    step(sec, pool, {"a": (1.0, 0.0, 0.0, 0.0), "b": (1.0, 0.0)})
    assert sec.q == [pytest.approx((0.75 + 3 * 0.25 + 2 * 0.5) / 6)]


def test_a_whole_step_of_one_arm_or_an_arm_for_each_slot():
    assert len(drawn(step(Sec(batch=12, group=4), make_pool()))) == 3
    whole, short = (
        drawn(step(Sec(batch=12, group=4, draw="step"), make_pool(each=each))) for each in (20, 8)
    )
    assert list(whole.values()) == [12]
    assert sorted(short.values()) == [4, 8]


def test_large_values_and_small_temperatures_do_not_overflow():
    sec, pool = Sec(batch=6, group=4, tau=1e-6), make_pool()
    step(sec, pool)
    sec.q = [0.9, 1.0, 0.0]
    assert drawn(step(sec, pool, number=1)) == {"b": 6}


@pytest.mark.parametrize(("knob", "value"), [("alpha", 0.0), ("alpha", 1.5), ("tau", 0.0)])
def test_knobs_are_checked(knob, value):
    with pytest.raises(MetisError, match=f"curriculum.{knob} = {value}"):
        Sec(**{knob: value})


def test_the_preset_of_the_paper():
    from metis.config import resolve

    sec = resolve({"curriculum": {"name": "sec", "preset": "paper"}}).curriculum
    assert (sec.categories, sec.arms, sec.alpha, sec.tau) == ("auto", 10, 0.5, 0.4)
    assert (sec.objective, sec.decay_unseen, sec.draw) == ("raw", False, "slot")
