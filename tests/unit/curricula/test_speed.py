"""SPEED by hand: two phases in one request, buffers first in first out, and old rollouts."""

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine, Rollout, Trajectory
from metis.core import state as states
from metis.curricula.speed import Speed


def pool(size):
    return Pool([Prompt(str(i), f"text {i}") for i in range(size)])


class Scripted(Engine):
    """Prompts of even number are mixed, the others all wrong; remembers what was asked."""

    def __init__(self, policy=0, teaches=lambda prompt: int(prompt.id) % 2 == 0):
        self.version, self.teaches = policy, teaches
        self.asked = []

    def rollout(self, prompts, n):
        self.asked.append(({prompt.id for prompt in prompts}, n))
        return [self.group(prompt, n) for prompt in prompts]

    def group(self, prompt, n):
        rewards = tuple(float(i % 2 == 0 and self.teaches(prompt)) for i in range(n))
        mark = np.array([float(prompt.id), self.version], dtype=np.float32)
        trajectory = Trajectory(np.arange(2), np.array([False, True]), mark, self.version)
        return Group(prompt, rewards, (trajectory,) * n)


def take(curriculum, prompts, engine, step=0):
    return drive(curriculum.step(prompts, Progress(step, policy=engine.version)), engine)


def ids(groups):
    return [group.prompt.id for group in groups]


@pytest.mark.parametrize(("screen", "group"), [(2, 8), (4, 8), (6, 8)])
def test_what_was_screened_is_continued_also_with_as_many_rollouts(screen, group):
    curriculum, engine = Speed(batch=2, group=group, screen=screen, multiplier=2), Scripted()
    plan = curriculum.step(pool(12), Progress(0))
    first = plan.send(None)
    assert first == Rollout(first.prompts, screen)
    screening = plan.send(engine.answer(first))
    continuation = plan.send(engine.answer(screening))
    assert (screening.n, continuation.n) == (screen, group - screen)
    even = [p for p in first.prompts if int(p.id) % 2 == 0]
    assert list(continuation.prompts) == even  # only what passed, in its order
    assert not {*screening.prompts} & {*first.prompts}


def test_one_step_by_hand():
    curriculum, engine = Speed(batch=2, group=5, screen=2, multiplier=2), Scripted()
    batch = take(curriculum, pool(16), engine)
    screened = [asked for asked, n in engine.asked if n == 2]
    continued = [asked for asked, n in engine.asked if n == 3]
    assert all(len(group.rewards) == 5 for group in batch.groups)
    assert all(int(i) % 2 == 0 for i in ids(batch.groups)) and len(batch.groups) == 2
    assert set().union(*continued) == {*ids(batch.groups), *ids(curriculum.ready)}
    odd = sum(int(i) % 2 for asked in screened for i in asked)
    assert batch.metrics["select/discarded"] == 2 * odd
    assert batch.metrics["select/candidates"] == sum(map(len, screened))
    assert batch.metrics["select/buffered"] == len(curriculum.waiting + curriculum.ready)
    assert batch.metrics["select/variance_screening"] == 0.5  # 1, 0 with ddof 1
    assert batch.metrics["select/variance_continuation"] == pytest.approx(1 / 3)  # 1, 0, 1
    reasons = {int(d.prompt.id) % 2: (d.chosen, d.reason) for d in batch.decisions}
    assert reasons == {0: (True, "passed"), 1: (False, "screened out")}


def test_surplus_is_trained_first_in_first_out_without_new_rollouts():
    curriculum, engine, prompts = Speed(batch=2, group=4, multiplier=3), Scripted(), pool(40)
    take(curriculum, prompts, engine)
    expected = ids(curriculum.ready)
    trained = []
    while len(curriculum.ready) >= 2:
        engine.asked.clear()
        trained += ids(take(curriculum, prompts, engine).groups)
        assert engine.asked == []
    engine.version = 1
    batch = take(curriculum, prompts, engine)
    assert [*trained, *ids(batch.groups)][: len(expected)] == expected


def test_rollouts_keep_the_policy_and_the_log_probabilities_they_were_written_with():
    curriculum, prompts = Speed(batch=1, group=4, multiplier=6, rounds=1), pool(30)
    assert take(curriculum, prompts, Scripted(policy=3)).groups == []  # only screened so far
    (group,) = take(curriculum, prompts, Scripted(policy=4), 1).groups
    assert [trajectory.policy for trajectory in group.trajectories] == [3, 3, 4, 4]
    assert [t.logprobs[1] for t in group.trajectories] == [3.0, 3.0, 4.0, 4.0]
    batch = take(curriculum, prompts, Scripted(policy=6), 2)
    assert [t.policy for t in batch.groups[0].trajectories] == [3, 3, 4, 4]
    assert batch.metrics["select/age"] == 2.5


@pytest.mark.parametrize(("age", "dropped"), [(2, False), (3, True)])
def test_groups_older_than_stale_are_dropped_and_counted(age, dropped):
    curriculum, prompts = Speed(batch=2, group=4, multiplier=3, stale=2), pool(60)
    take(curriculum, prompts, Scripted(policy=0))
    waiting, ready = ids(curriculum.waiting), ids(curriculum.ready)
    assert waiting and ready
    batch = take(curriculum, prompts, Scripted(policy=age), 1)
    assert batch.metrics["select/stale"] == (len(waiting + ready) if dropped else 0)
    oldest = max(age - t.policy for group in batch.groups for t in group.trajectories)
    assert oldest == (0 if dropped else age)
    screened_out = sum(not decision.chosen for decision in batch.decisions)
    lost = 2 * len(waiting) + 4 * len(ready) if dropped else 0
    assert batch.metrics["select/discarded"] == 2 * screened_out + lost


def test_training_on_the_continuation_only_leaves_the_biased_screening_out():
    curriculum = Speed(batch=2, group=4, screen=3, train="continuation", multiplier=3)
    engine = Scripted()
    batch = take(curriculum, pool(30), engine)
    assert {n for _, n in engine.asked} == {3, 4}
    assert all(len(group.rewards) == 4 for group in batch.groups + curriculum.ready)
    out = sum(not decision.chosen for decision in batch.decisions)
    continued = len(batch.groups) + len(curriculum.ready)
    assert batch.metrics["select/discarded"] == 3 * (out + continued)


def test_no_prompt_is_in_two_buffers_or_screened_again_while_it_waits():
    curriculum, prompts = Speed(batch=2, group=4, multiplier=3), pool(14)
    for step in range(12):
        batch = take(curriculum, prompts, Scripted(policy=step), step)
        held = ids(batch.groups) + ids(curriculum.waiting) + ids(curriculum.ready)
        assert len(held) == len(set(held))


def test_it_ends_when_nothing_passes():
    engine, curriculum = Scripted(teaches=lambda _: False), Speed(batch=1, group=4, multiplier=1)
    batch = take(curriculum, pool(200), engine)
    assert len(engine.asked) == 50 and batch.groups == []
    assert batch.notices == ["50 of 50 prompts were screened out in 50 rounds: no update"]
    batch = take(Speed(batch=1, group=4), pool(3), Scripted(teaches=lambda _: False))
    assert batch.groups == [] and batch.metrics["select/rounds"] == 1.0


def test_full_buffers_survive_the_state_file_to_the_last_token(tmp_path):
    curriculum, prompts = Speed(batch=2, group=4, multiplier=3), pool(60)
    take(curriculum, prompts, Scripted(policy=5))
    assert curriculum.waiting and curriculum.ready
    states.save_state(tmp_path / "state", curriculum.state_dict())
    restored = Speed(batch=2, group=4, multiplier=3)
    restored.load_state_dict(states.load_state(tmp_path / "state"))
    for before, after in [
        (curriculum.waiting, restored.waiting),
        (curriculum.ready, restored.ready),
    ]:
        assert [g.rewards for g in before] == [g.rewards for g in after]
        assert [g.prompt for g in before] == [g.prompt for g in after]
        for old, new in zip(before, after, strict=True):
            for one, other in zip(old.trajectories, new.trajectories, strict=True):
                assert one.policy == other.policy
                for name in ("tokens", "loss_mask", "logprobs"):
                    mine, theirs = getattr(one, name), getattr(other, name)
                    assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("group", "phases"), [(24, (4, 20)), (8, (4, 4)), (4, (2, 2)), (3, (2, 1))]
)
def test_the_authors_four_where_the_group_has_room(group, phases):
    assert (Speed(group=group).screen, Speed(group=group).rest) == phases


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"screen": 8}, "curriculum.screen = 8: use less than group = 8"),
        ({"group": 2}, "curriculum.screen = 2: use less than group = 2"),
        ({"screen": 1}, "curriculum.screen = 1: use at least 2"),
        ({"stale": -1}, "curriculum.stale = -1"),
        ({"multiplier": 0}, "curriculum.multiplier = 0"),
    ],
)
def test_bad_knobs_are_refused_by_name(knobs, words):
    with pytest.raises(MetisError, match=words):
        Speed(**knobs)


def test_old_and_new_groups_are_mixed():
    """Mini-batches are cut in order, and would go by age."""
    curriculum, engine, prompts = Speed(batch=8, group=4, multiplier=1), Scripted(), pool(200)
    first_is_old = set()
    for step in range(20):
        engine.version = step
        batch = take(curriculum, prompts, engine, step)
        ages = [step - group.trajectories[-1].policy for group in batch.groups]
        if len(set(ages)) > 1:
            first_is_old.add(ages[0] == max(ages))
    assert first_is_old == {True, False}
