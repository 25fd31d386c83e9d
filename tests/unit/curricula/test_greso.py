"""GRESO by hand: the chance to be kept, the runs behind it, its controller and its rounds."""

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine, Trajectory
from metis.curricula.greso import Greso

EMPTY = Trajectory(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, np.float32), 0)
ONE = Prompt("one", "")


def group(prompt, *rewards, failed=0):
    return Group(prompt, rewards, (EMPTY,) * len(rewards), failed)


def pool(size, rewards="binary"):
    return Pool([Prompt(str(i), "") for i in range(size)], rewards)


class Scripted(Engine):
    """Rewards by prompt, mixed where not given; every call is remembered."""

    def __init__(self, rewards=None, default=(1.0, 0.0)):
        self.rewards, self.default, self.asked = rewards or {}, default, []

    def rollout(self, prompts, n):
        self.asked.append([prompt.id for prompt in prompts])
        return [group(p, *self.rewards.get(p.id, self.default)) for p in prompts]


def observed(*groups, **knobs):
    """The curriculum after it saw these rewards of one prompt, in turn."""
    curriculum, prompts = Greso(batch=1, group=2, **knobs), Pool([ONE])
    curriculum.floor = 1.0  # never skip while the history is made
    for step, rewards in enumerate(groups):
        drive(curriculum.step(prompts, Progress(step)), Scripted({"one": rewards}))
    curriculum.floor = knobs.get("floor", 0.01)
    return curriculum


RIGHT, WRONG, MIXED, PARTIAL = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.4, 0.4)


@pytest.mark.parametrize(("z", "chance"), [(0, 1.0), (1, 0.5), (2, 0.25), (8, 0.01)])
@pytest.mark.parametrize("kind", ["easy", "hard", "partial"])
def test_the_chance_to_be_kept(kind, z, chance):
    curriculum = Greso()
    curriculum.chances = {kind: 0.5}
    if z:
        curriculum.runs = {"one": (kind, z)}
    assert curriculum.keep(ONE) == chance
    assert curriculum.keep(Prompt("never seen", "")) == 1.0


@pytest.mark.parametrize(
    ("history", "run"),
    [
        ([], None),
        ([MIXED], None),
        ([RIGHT], ("easy", 1)),
        ([WRONG, WRONG, WRONG], ("hard", 3)),
        ([WRONG, WRONG, MIXED], None),
        ([MIXED, RIGHT, RIGHT], ("easy", 2)),
        ([RIGHT, RIGHT, WRONG], ("hard", 1)),  # the run of the last type only
        ([PARTIAL, PARTIAL], ("partial", 2)),
        ([(0.1, 0.1)], ("hard", 1)),  # a reward for the format only
        ([(0.98, 0.98)], ("easy", 1)),
        ([(1.0, 0.97)], None),  # nearly perfect, but its rewards differ: a signal, not a run
    ],
)
def test_the_run_is_that_of_the_last_dead_groups_of_a_kind(history, run):
    assert observed(*history, pace=0.0).runs.get("one") == run


def test_rollouts_that_failed_leave_the_trace_alone():
    curriculum, prompts = observed(WRONG, WRONG, pace=0.0), Pool([ONE])
    curriculum.floor = 1.0

    class Failing(Engine):
        def rollout(self, prompts, n):
            return [group(prompt, 1.0, failed=n - 1) for prompt in prompts]

    batch = drive(curriculum.step(prompts, Progress(2)), Failing())
    assert curriculum.runs == {"one": ("hard", 2)}
    assert batch.groups == []


def test_the_controller_counts_types_as_they_are():
    """Of 12 groups 1 easy (its target is 1/12) and 2 hard (1/6): both are at their targets."""
    curriculum, prompts = Greso(batch=8, group=2), pool(12)
    rewards = {"0": RIGHT, "1": WRONG, "2": WRONG}
    drive(curriculum.step(prompts, Progress(0)), Scripted(rewards))
    assert prompts.epoch == 0 and curriculum.chances == {"easy": 0.5, "hard": 0.5}
    curriculum.floor = 1.0
    drive(curriculum.step(prompts, Progress(1)), Scripted(rewards))
    assert prompts.epoch == 1
    assert curriculum.chances == {"easy": pytest.approx(0.49), "hard": pytest.approx(0.49)}
    drive(curriculum.step(prompts, Progress(2)), Scripted({"0": RIGHT, "1": WRONG}))
    assert curriculum.chances == {"easy": pytest.approx(0.48), "hard": pytest.approx(0.50)}
    batch = drive(curriculum.step(prompts, Progress(3)), Scripted())
    assert curriculum.chances == {"easy": pytest.approx(0.49), "hard": pytest.approx(0.51)}
    assert batch.metrics["select/keep_easy"] == pytest.approx(0.49)
    assert "select/keep_partial" not in batch.metrics


def test_the_controller_stays_in_its_bounds():
    curriculum = observed(*[WRONG] * 60)
    assert curriculum.chances["hard"] == pytest.approx(0.05)
    curriculum = observed(WRONG, *[MIXED] * 60)
    assert curriculum.chances["hard"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("kept", "rolled_out", "size", "last"),
    [
        (0, 0, 384, False),  # the first round: 1.5 B
        (0, 384, 384, False),  # every group dead: no estimate, no division by zero
        (156, 384, 307, True),  # 1.25 * 100 * 384 / 156 = 307.7
        (250, 384, 64, True),  # never below B / 4
        (40, 384, 384, False),  # 2592 would be needed
    ],
)
def test_the_size_of_the_next_round(kept, rolled_out, size, last):
    assert Greso()._next_round(kept, rolled_out) == (size, last)


def test_one_step_by_hand():
    """4 of the first 6 are dead: 1.25 * 2 * 6 / 2 = 7.5 are wanted, more than 6; then they fill."""
    prompts, order = pool(40), [prompt.id for prompt in pool(40).sample(40)]
    engine = Scripted(dict.fromkeys(order[:4], WRONG))
    curriculum = Greso(batch=4, group=2)
    batch = drive(curriculum.step(prompts, Progress(0)), engine)
    assert engine.asked == [order[:6], order[6:12]]
    assert [g.prompt.id for g in batch.groups] == order[4:8]
    assert curriculum.runs == dict.fromkeys(order[:4], ("hard", 1))  # only these need a trace
    assert batch.metrics == {
        "select/candidates": 12.0,
        "select/skipped": 0.0,
        "select/rounds": 2.0,
        "select/dead": 4.0,
        "select/discarded": 16.0,  # 4 dead groups and 4 too many
        "select/keep_hard": 0.5,
    }


def test_the_round_that_should_do_is_the_last_even_if_it_does_not():
    prompts, order = pool(90), [prompt.id for prompt in pool(90).sample(90)]
    engine = Scripted(dict.fromkeys(order[:3], MIXED), default=WRONG)
    batch = drive(Greso(batch=4, group=2).step(prompts, Progress(0)), engine)
    assert [len(asked) for asked in engine.asked] == [6, 2]  # 1.25 * 1 * 6 / 3 = 2.5
    assert len(batch.groups) == 3 and batch.notices == []


def test_it_ends_when_every_group_is_dead_and_when_every_prompt_is_skipped():
    curriculum, prompts = Greso(batch=4, group=2, start=0.0, floor=0.0), pool(500)
    batch = drive(curriculum.step(prompts, Progress(0)), Scripted(default=WRONG))
    assert batch.groups == []
    assert batch.notices == ["60 of 60 groups had no variance in 10 rounds: no update"]
    curriculum.runs = {prompt.id: ("hard", 1) for prompt in prompts.prompts}
    engine = Scripted()
    batch = drive(curriculum.step(prompts, Progress(1)), engine)
    assert batch.groups == [] and engine.asked == []
    assert batch.metrics["select/skipped"] == 500.0
    assert {decision.reason for decision in batch.decisions} == {"skipped"}


def test_prompts_are_skipped_as_often_as_their_run_says():
    curriculum, prompts = Greso(batch=20, group=2), pool(2000)
    curriculum.chances = {"hard": 0.5}
    curriculum.runs = {prompt.id: ("hard", 2) for prompt in prompts.prompts}
    considered = rolled_out = 0
    for step in range(40):
        engine = Scripted()
        batch = drive(curriculum.step(prompts, Progress(step)), engine)
        rolled_out += sum(map(len, engine.asked))
        considered += int(batch.metrics["select/candidates"])
        curriculum.runs = {prompt.id: ("hard", 2) for prompt in prompts.prompts}
        curriculum.chances = {"hard": 0.5}
    assert rolled_out / considered == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    "knobs", [{"start": 1.1}, {"bounds": (0.9, 0.1)}, {"least": 0}, {"rounds": 0}, {"target": -1}]
)
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Greso(**knobs)


@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_the_controller_waits_for_the_second_epoch_of_a_small_pool_too(size):
    curriculum, prompts = Greso(batch=4, group=2), pool(size)
    drive(curriculum.step(prompts, Progress(0)), Scripted(default=WRONG))
    assert prompts.epoch == 0
    assert curriculum.chances == {"hard": 0.5}
    drive(curriculum.step(prompts, Progress(1)), Scripted(default=WRONG))
    assert curriculum.chances == {"hard": 0.49}
