import math
from collections import Counter

import numpy as np
import pytest

from metis import MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine, Group, Trajectory
from metis.curricula.dump import Dump

NOTHING = Trajectory(np.zeros(1, int), np.ones(1, bool), np.zeros(1, np.float32), 0)


class Answers(Engine):
    """Rolls out every prompt of a category to the same rewards."""

    def __init__(self, rewards):
        self.rewards = rewards

    def rollout(self, prompts, n):
        groups = []
        for prompt in prompts:
            rewards = self.rewards[prompt.category]
            groups.append(Group(prompt, rewards, (NOTHING,) * len(rewards), n - len(rewards)))
        return groups


HALF = {"a": (1.0, 0.0), "b": (1.0, 1.0)}
"""|A| is 1/2 in a and 0 in b."""


def make_pool(each=20):
    return Pool([Prompt(f"{c}:{i}", "", c) for c in "ab" for i in range(each)])


def step(dump, pool, rewards=HALF, number=0):
    return drive(dump.step(pool, Progress(number)), Answers(rewards))


def chances(batch):
    return [batch.metrics[f"select/arm_{arm}_chance"] for arm in (0, 1)]


def test_the_bound_by_hand():
    dump, pool = Dump(batch=10, group=2, objective="raw"), make_pool()
    first = step(dump, pool)
    assert chances(first) == [0.5, 0.5]
    drawn = Counter(group.prompt.category for group in first.groups)
    a, b = 2 * drawn["a"], 2 * drawn["b"]
    assert dump.counts == [a, b]
    assert a + b == 20

    bounds = [
        0.5 + math.sqrt(2 * math.log(21) / (a + 1)),
        0.0 + math.sqrt(2 * math.log(21) / (b + 1)),
    ]
    assert dump.bounds() == pytest.approx(bounds)
    second = step(dump, pool, number=1)
    odds = np.exp((np.array(bounds) - max(bounds)) / 0.1)
    assert chances(second) == pytest.approx(odds / odds.sum())
    assert [second.metrics[f"select/arm_{arm}_value"] for arm in (0, 1)] == pytest.approx(bounds)


def test_the_bonus_counts_rollouts_and_is_largest_for_an_unseen_source():
    dump = Dump()
    dump.windows, dump.counts = [[0.2, 0.4], []], [7, 0]
    assert dump.bounds() == pytest.approx(
        [0.3 + math.sqrt(2 * math.log(8) / 8), math.sqrt(2 * math.log(8))]
    )


def test_the_window_holds_the_last_rollouts_and_the_count_all_of_them():
    dump, pool = Dump(batch=4, group=2, window=5, objective="raw"), make_pool()
    for number in range(6):
        rewards = (1.0, 0.0) if number < 3 else (0.6, 0.0)
        step(dump, pool, {"a": rewards, "b": rewards}, number)
    assert sum(dump.counts) == 6 * 4 * 2
    assert all(len(window) <= 5 for window in dump.windows)
    assert max(len(window) for window in dump.windows) == 5
    busiest = int(np.argmax(dump.counts))
    assert dump.windows[busiest] == pytest.approx([0.3] * 5)


def test_failed_rollouts_are_not_counted():
    dump = Dump(batch=4, group=4)
    step(dump, make_pool(), {"a": (), "b": (1.0,)})
    assert dump.counts == [0, 0]
    assert dump.bounds() == [0.0, 0.0]


def test_no_prompt_is_twice_in_a_batch_though_one_source_has_nearly_all_the_chance():
    dump, pool = Dump(batch=8, group=2), make_pool(each=5)
    step(dump, pool)
    dump.windows, dump.counts = [[1.0], [0.0]], [1000, 1000]
    batch = step(dump, pool, number=1)
    assert chances(batch)[0] > 0.999
    ids = [group.prompt.id for group in batch.groups]
    assert len(set(ids)) == 8
    assert Counter(name[0] for name in ids) == {"a": 5, "b": 3}


@pytest.mark.parametrize(("knob", "value"), [("window", 0), ("tau", 0.0)])
def test_knobs_are_checked(knob, value):
    with pytest.raises(MetisError, match=f"curriculum.{knob} = {value}"):
        Dump(**{knob: value})
