"""Dynamic sampling by hand: what is kept, when it refills, and that it always ends."""

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine, Trajectory
from metis.curricula.dapo import Dapo

EMPTY = Trajectory(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, np.float32), 0)


def pool(size, rewards="binary"):
    return Pool([Prompt(str(i), f"text {i}") for i in range(size)], rewards)


class Scripted(Engine):
    """Rewards by call and position: `rounds[call][position]`, the last of each repeated."""

    def __init__(self, *rounds):
        self.rounds, self.asked = rounds, []

    def rollout(self, prompts, n):
        rows = self.rounds[min(len(self.asked), len(self.rounds) - 1)]
        self.asked.append([prompt.id for prompt in prompts])
        rows = [rows[min(i, len(rows) - 1)] for i in range(len(prompts))]
        return [Group(p, row, (EMPTY,) * n) for p, row in zip(prompts, rows, strict=True)]


RIGHT, WRONG, MIXED = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0)


def test_one_step_by_hand():
    engine = Scripted([RIGHT, MIXED, WRONG], [MIXED, WRONG, MIXED])
    batch = drive(Dapo(batch=2, group=2, multiplier=1.5).step(pool(9), Progress(0)), engine)
    first, second = engine.asked
    assert len(first) == len(second) == 3 and not set(first) & set(second)
    assert [group.prompt.id for group in batch.groups] == [first[1], second[0]]  # the first B
    assert batch.metrics == {
        "select/candidates": 6.0,
        "select/rounds": 2.0,
        "select/dead": 3.0,
        "select/discarded": 8.0,  # three dead groups and a surplus one, of two rollouts
    }
    reasons = {decision.prompt.id: decision.reason for decision in batch.decisions}
    dead = [first[0], first[2], second[1]]
    assert reasons == {first[1]: "kept", second[0]: "kept", second[2]: "surplus"} | dict.fromkeys(
        dead, "dead"
    )
    assert batch.notices == []


def test_refill_stops_when_every_group_is_dead_and_the_run_goes_on():
    curriculum, prompts, engine = Dapo(batch=2, group=2), pool(1000), Scripted([WRONG])
    batch = drive(curriculum.step(prompts, Progress(0)), engine)
    assert len(engine.asked) == 10 and {len(asked) for asked in engine.asked} == {6}
    assert batch.groups == [] and batch.metrics["select/discarded"] == 120.0
    assert batch.notices == ["60 of 60 groups had no variance in 10 rounds: no update"]
    assert drive(curriculum.step(prompts, Progress(1)), engine).notices == []  # said once
    assert len(drive(curriculum.step(prompts, Progress(2)), Scripted([MIXED])).groups) == 2
    assert len(drive(curriculum.step(prompts, Progress(3)), Scripted([WRONG])).notices) == 1


def test_a_short_batch_is_trained_with_a_notice():
    engine = Scripted([MIXED, WRONG], [WRONG])
    batch = drive(Dapo(batch=2, group=2, rounds=3).step(pool(100), Progress(0)), engine)
    assert len(engine.asked) == 3
    assert len(batch.groups) == 1
    assert batch.notices == [
        "17 of 18 groups had no variance in 3 rounds: training on 1 of 2 groups"
    ]


def test_a_pool_that_is_used_up_ends_the_step():
    engine = Scripted([WRONG])
    batch = drive(Dapo(batch=4, group=2, multiplier=1).step(pool(6), Progress(0)), engine)
    assert [len(asked) for asked in engine.asked] == [4, 2]
    assert batch.groups == []


def test_noise_in_a_continuous_reward_is_no_signal():
    signal = (0.48,) + (0.52,) * 7  # one of 8 rollouts fails one of 25 tests more: v = 1.75e-4
    noise = (0.5,) + (0.5001,) * 7
    engine = Scripted([signal, noise])
    knobs = {"batch": 1, "group": 8, "multiplier": 2}
    batch = drive(Dapo(**knobs).step(pool(2, "continuous"), Progress(0)), engine)
    assert [group.rewards for group in batch.groups] == [signal]
    assert batch.groups[0].variance == pytest.approx(1.75e-4)
    batch = drive(Dapo(**knobs, delta=2e-4).step(pool(2, "continuous"), Progress(0)), engine)
    assert batch.groups == []


def test_a_group_without_a_variance_is_dropped_and_says_why():
    class Failing(Engine):
        def rollout(self, prompts, n):
            return [Group(prompt, (1.0,), (EMPTY,), failed=n - 1) for prompt in prompts]

    batch = drive(Dapo(batch=1, group=4).step(pool(3), Progress(0)), Failing())
    assert batch.groups == [] and batch.metrics["select/discarded"] == 3.0
    assert {(d.score, d.failure) for d in batch.decisions} == {(None, "too few rewards")}


@pytest.mark.parametrize(
    "knobs", [{"rounds": 0}, {"multiplier": 0}, {"multiplier": float("inf")}, {"delta": -1}]
)
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Dapo(**knobs)
