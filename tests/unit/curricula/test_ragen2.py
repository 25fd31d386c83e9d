"""The share of variance by hand, refilling, and what is never kept."""

import random

import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Engine
from metis.curricula.ragen2 import Ragen2

NONE, ONE, TWO = (0.0,) * 4, (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0)
"""Four rollouts of which none, one and two pass: variances of 0, 3/16 and 1/4."""


class Scripted(Engine):
    """The rewards of each call, by position."""

    def __init__(self, *rounds):
        self.rounds, self.asked = list(rounds), []

    def rollout(self, prompts, n):
        self.asked.append([prompt.id for prompt in prompts])
        rows = self.rounds[min(len(self.asked), len(self.rounds)) - 1]
        return [Group(prompt, row) for prompt, row in zip(prompts, rows, strict=True)]


def pool(size=40, rewards="binary"):
    return Pool([Prompt(str(i), f"text {i}") for i in range(size)], rewards)


@pytest.mark.parametrize(
    ("keep", "epsilon", "kept"),
    [
        (0.5, 0.0, 2),  # 0.4375 of 0.875: 0.25 + 0.25
        (0.7, 0.0, 3),  # 0.6125: 0.25 + 0.25 + 0.1875 = 0.6875
        (0.8, 0.0, 4),  # 0.7
        (0.8, 0.02, 3),  # 0.68
        (0.9, 0.01, 4),  # 0.7775
        (1.0, 0.5, 4),  # all of it
    ],
)
def test_as_few_groups_as_reach_the_share(keep, epsilon, kept):
    variances = [0.25, 0.1875, 0.0, 0.25, 0.1875, None]
    chosen = Ragen2(batch=6, keep=keep, epsilon=epsilon).prefix(variances, random.Random(0))
    assert len(chosen) == kept and {0, 3} <= set(chosen) <= {0, 1, 3, 4}


@pytest.mark.parametrize(
    ("keep", "variances", "kept"),
    [
        (0.5, [0.25, 0.25], 1),  # half of 0.5 is one of them: the share is reached, not passed
        (1.0, [0.25, 1e-7], 1),  # noise is none of the variance
        (0.9, [1e-7, 1e-8], 0),
    ],
)
def test_the_share_is_reached_exactly_and_noise_is_no_part_of_it(keep, variances, kept):
    curriculum = Ragen2(batch=6, keep=keep, epsilon=0.0)
    assert len(curriculum.prefix(variances, random.Random(0))) == kept


def test_one_step_by_hand():
    """A share of 0.7 of 0.25 + 0.1875 + 0.25 is 0.48: the two groups of highest variance."""
    engine = Scripted([TWO, NONE, ONE, TWO])
    batch = drive(Ragen2(batch=4, group=4, keep=0.7).step(pool(), Progress(0)), engine)
    (asked,) = engine.asked
    assert [group.prompt.id for group in batch.groups] == [asked[0], asked[3]]
    assert batch.metrics == {
        "select/candidates": 4.0,
        "select/rounds": 1.0,
        "select/dead": 1.0,
        "select/least": 0.25,
        "select/discarded": 8.0,
    }
    assert {decision.prompt.id: decision.reason for decision in batch.decisions} == {
        asked[0]: "kept",
        asked[1]: "dead",
        asked[2]: "lower variance",
        asked[3]: "kept",
    }


def test_a_refilled_batch_has_the_share_of_all_groups_of_the_step():
    """Of 0.25 + 0.1875 three tenths of the variance would be one group; a second round brings two
    of 0.25 more: 0.28 of 0.9375 needs two groups, and the batch is full."""
    engine = Scripted([TWO, ONE], [TWO, TWO], [TWO, TWO])
    knobs = {"batch": 2, "group": 4, "keep": 0.3, "epsilon": 0.0}
    batch = drive(Ragen2(**knobs, rounds=5).step(pool(), Progress(0)), engine)
    first, second = engine.asked
    assert not set(first) & set(second)
    kept = {group.prompt.id for group in batch.groups}
    assert len(kept) == 2 and kept <= {first[0], *second}
    assert batch.metrics["select/rounds"] == 2.0 and batch.notices == []
    alone = Scripted([TWO, ONE])
    batch = drive(Ragen2(**knobs).step(pool(), Progress(0)), alone)
    assert [group.prompt.id for group in batch.groups] == [alone.asked[0][0]]


def test_a_batch_has_at_most_its_size_and_the_highest_variances():
    engine = Scripted([ONE, ONE, ONE, TWO])
    batch = drive(Ragen2(batch=2, group=4, multiplier=2).step(pool(), Progress(0)), engine)
    assert len(batch.groups) == 2 and engine.asked[0][3] in {g.prompt.id for g in batch.groups}


def test_hardly_any_variance_is_not_trained_on():
    """0.9 of 0.0025 is less than epsilon."""
    weak = (0.5, 0.6, 0.5, 0.6)
    curriculum = Ragen2(batch=1, group=4)
    batch = drive(curriculum.step(pool(rewards="continuous"), Progress(0)), Scripted([weak]))
    assert batch.groups == [] and "no update" in batch.notices[0]
    curriculum = Ragen2(batch=1, group=4, epsilon=0.0)
    batch = drive(curriculum.step(pool(rewards="continuous"), Progress(0)), Scripted([weak]))
    assert [group.rewards for group in batch.groups] == [weak]


def test_the_gate_is_the_lowest_variance_of_the_last_step():
    curriculum, (prompt, *_) = Ragen2(batch=4, group=4, keep=0.7), pool().prompts
    assert curriculum.keeps(Group(prompt, ONE)) and not curriculum.keeps(Group(prompt, NONE))
    drive(curriculum.step(pool(), Progress(0)), Scripted([TWO, NONE, ONE, TWO]))
    assert curriculum.keeps(Group(prompt, TWO)) and not curriculum.keeps(Group(prompt, ONE))


@pytest.mark.parametrize(
    "knobs",
    [
        {"keep": 0.0},
        {"keep": 1.5},
        {"epsilon": -1},
        {"rounds": 0},
        {"multiplier": 0},
        {"delta": -1},
    ],
)
def test_bad_knobs_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(MetisError, match=f"curriculum.{name} = "):
        Ragen2(**knobs)
