"""The pools by hand, how often each is sampled, and the memory of mastered prompts."""

import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine
from metis.curricula.pools import Last, Pools


class Constant(Engine):
    def __init__(self, reward=0.5):
        self.reward, self.asked = reward, []

    def rollout(self, prompts, n):
        self.asked.append([prompt.id for prompt in prompts])
        return [Group(prompt, (self.reward,) * n) for prompt in prompts]


def pool(size=10):
    return Pool([Prompt(str(i), f"text {i}") for i in range(size)])


def walk(curriculum, prompts, engine, steps=1, start=0):
    return [
        drive(curriculum.step(prompts, Progress(i)), engine) for i in range(start, start + steps)
    ]


@pytest.mark.parametrize(
    ("mean", "name"),
    [(0.0, "hard"), (0.25, "hard"), (0.375, "normal"), (0.75, "normal"), (0.875, "easy")],
)
def test_a_pool_is_told_by_the_last_mean_reward(mean, name):
    curriculum, prompt = Pools(), Prompt("x", "")
    assert curriculum.name(prompt, 0, 9.0) == "unseen"
    curriculum._observe(Group(prompt, (mean, mean)), 0)
    assert curriculum.name(prompt, 1, 9.0) == name
    curriculum._observe(Group(prompt, (), failed=2), 1)
    assert curriculum.name(prompt, 2, 9.0) == name
    curriculum._observe(Group(prompt, (1.0, 0.0)), 2)
    assert curriculum.name(prompt, 3, 9.0) == "normal"


def test_each_pool_is_sampled_in_proportion_to_its_weight():
    """Of 300 prompts in each pool, the first epoch keeps one in five of the hard and easy ones."""
    prompts, engine = pool(900), Constant()
    means = dict(enumerate((0.0, 0.5, 1.0)))
    curriculum = Pools(batch=420, group=2)
    curriculum.last = {p.id: Last(means[int(p.id) % 3], 0, 0) for p in prompts.prompts}
    (batch,) = walk(curriculum, prompts, engine)
    reasons = [decision.reason for decision in batch.decisions if decision.chosen]
    assert len(reasons) == len(batch.groups) == 420
    assert reasons.count("pool normal") == 300
    assert 30 < reasons.count("pool hard") < 90 and 30 < reasons.count("pool easy") < 90
    few = Pools(batch=60, group=2)
    few.last = {p.id: Last(means[int(p.id) % 3], 0, 0) for p in prompts.prompts}
    (batch,) = walk(few, pool(900), Constant())
    reasons = [decision.reason for decision in batch.decisions if decision.chosen]
    assert reasons.count("pool normal") > 30 and batch.metrics["select/skipped"] > 30


def test_one_step_by_hand():
    """Weights of 0 and 1: the hard and the easy prompt are skipped, and fill what is missing."""
    prompts, engine = pool(4), Constant(0.5)
    curriculum = Pools(batch=3, group=2, weights=(0.0, 1.0, 0.0))
    curriculum.last = {"0": Last(0.0, 0, 0), "1": Last(1.0, 1, 0), "2": Last(0.5, 0, 0)}
    (batch,) = walk(curriculum, prompts, engine)
    (asked,) = engine.asked
    assert {"2", "3"} < set(asked) and len(asked) == 3
    spare = ({"0", "1"} & set(asked)).pop()
    reasons = {decision.prompt.id: decision.reason for decision in batch.decisions}
    other = "1" if spare == "0" else "0"
    assert reasons == {
        "2": "pool normal",
        "3": "pool unseen",
        spare: "pool hard" if spare == "0" else "pool easy",
        other: "skipped",
    }
    assert batch.metrics["select/candidates"] == 4.0 and batch.metrics["select/skipped"] == 1.0
    assert batch.metrics["select/pool_unseen"] == 0.0
    assert batch.metrics["select/pool_normal"] == 3.0


def test_what_is_mastered_rests_until_its_new_test():
    """3 prompts, 3 a step: an epoch is a step. Mastered in steps 0 and 1, they return in step 5."""
    prompts, engine = pool(3), Constant(1.0)
    curriculum = Pools(batch=3, group=2, mastered=2, retest=4.0)
    first, second, *resting, again = walk(curriculum, prompts, engine, 6)
    assert len(first.groups) == len(second.groups) == 3
    assert second.metrics["select/pool_mastered"] == 3.0
    assert [len(batch.groups) for batch in resting] == [0, 0, 0] and len(again.groups) == 3
    assert again.metrics["select/pool_mastered"] == 3.0  # it passed again
    assert [len(batch.groups) for batch in walk(curriculum, prompts, engine, 3, 6)] == [0, 0, 0]
    engine.reward = 0.5
    walk(curriculum, prompts, engine, 1, 9)
    (failed,) = walk(curriculum, prompts, engine, 1, 10)
    assert len(failed.groups) == 3 and failed.metrics["select/pool_normal"] == 3.0


def test_without_memory_nothing_is_mastered():
    prompts, engine = pool(3), Constant(1.0)
    batches = walk(Pools(batch=3, group=2), prompts, engine, 6)
    assert all(len(batch.groups) == 3 for batch in batches)


@pytest.mark.parametrize(
    "knobs",
    [
        {"hard": 0.9},
        {"easy": 1.5},
        {"weights": (0.0, 0.0, 0.0)},
        {"weights": (-1.0, 1.0, 1.0)},
        {"mastered": -1},
        {"retest": 0},
    ],
)
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Pools(**knobs)
