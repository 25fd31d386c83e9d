import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.core import Group, Prompt, Trajectory
from metis.curricula.judge.memory import Pair, pairs, pick, quantile, recent, spread

deterministic = settings(derandomize=True, deadline=None)
LEVELS = sorted({passes * (8 - passes) / 64 for passes in range(9)})
memories = st.lists(
    st.builds(
        Pair,
        st.integers(0, 3),
        st.integers(0, 9).map(lambda number: f"data:{number}"),
        st.sampled_from(LEVELS),
    ),
    max_size=25,
)


def remember(*variances):
    return [Pair(0, f"data:{i}", v) for i, v in enumerate(variances)]


def variances_of(picked):
    return [pair.v for pair in picked]


def test_three_exemplars_are_those_of_the_paper():
    assert spread(LEVELS, 3) == [0.0, 0.109375, 0.25]
    memory = remember(*(passes * (8 - passes) / 64 for passes in range(9)))
    for seed in range(20):
        picked = pick(memory, 3, (), random.Random(seed))
        assert variances_of(picked) == [0.0, 0.109375, 0.25]


@pytest.mark.parametrize(
    ("values", "k", "expected"),
    [
        ([], 3, []),
        ([0.0, 0.25], 0, []),
        ([0.0, 0.1, 0.25], 1, [0.1]),
        ([0.0, 0.1, 0.25], 2, [0.0, 0.25]),
        ([0.0, 0.25], 3, [0.0, 0.25]),
        ([0.0, 0.01, 0.02, 0.25], 3, [0.0, 0.02, 0.25]),
        ([0.1], 4, [0.1]),
    ],
)
def test_spread_takes_the_values_nearest_to_even_spacing(values, k, expected):
    assert spread(values, k) == expected


def test_no_exemplars_are_wanted_or_none_remembered():
    assert pick(remember(0.0, 0.25), 0, (), random.Random(0)) == []
    assert pick([], 3, (), random.Random(0)) == []


def test_a_single_exemplar_is_the_middle_one():
    assert variances_of(pick(remember(*LEVELS), 1, (), random.Random(0))) == [0.109375]


def test_fewer_distinct_variances_than_exemplars_are_filled_with_other_prompts():
    picked = pick(remember(0.25, 0.0, 0.0, 0.0), 3, (), random.Random(0))
    assert variances_of(picked) == [0.0, 0.0, 0.25]
    assert len({pair.prompt for pair in picked}) == 3
    assert variances_of(pick(remember(0.25, 0.0), 3, (), random.Random(0))) == [0.0, 0.25]


def test_every_prompt_of_a_variance_can_be_shown():
    memory = remember(0.0, 0.1, 0.1, 0.1, 0.25)
    shown = {pick(memory, 3, (), random.Random(seed))[1].prompt for seed in range(50)}
    assert shown == {"data:1", "data:2", "data:3"}


def test_the_latest_pair_of_a_prompt_counts():
    memory = [Pair(1, "data:0", 0.25), Pair(2, "data:0", 0.0)]
    assert pick(memory, 3, (), random.Random(0)) == [Pair(2, "data:0", 0.0)]


def test_candidates_are_not_shown_while_there_are_enough_others():
    memory = remember(0.0, 0.25, 0.125, 0.1, 0.11, 0.12)
    picked = pick(memory, 3, {"data:0", "data:1", "data:2"}, random.Random(0))
    assert variances_of(picked) == [0.1, 0.11, 0.12]
    everything = {pair.prompt for pair in memory}
    assert variances_of(pick(memory, 3, everything, random.Random(0))) == [0.0, 0.125, 0.25]


@deterministic
@given(memories, st.integers(0, 5), st.sets(st.sampled_from([f"data:{i}" for i in range(10)])))
def test_exemplars_are_of_distinct_prompts_in_ascending_order(memory, k, avoid):
    picked = pick(memory, k, avoid, random.Random(0))
    latest = {pair.prompt: pair for pair in memory}
    shown = [pair.prompt for pair in picked]
    assert len(shown) == len(set(shown)) == min(k, len(latest))
    assert all(latest[pair.prompt] == pair for pair in picked)
    assert variances_of(picked) == sorted(variances_of(picked))
    others = [pair.v for pair in latest.values() if pair.prompt not in avoid]
    if len(others) >= k:
        assert not set(shown) & avoid
        if k > 1:
            assert (picked[0].v, picked[-1].v) == (min(others), max(others))


def test_exemplars_are_fixed_by_the_generator():
    memory = remember(*[0.0] * 10, *[0.1] * 10, *[0.25] * 10)
    assert pick(memory, 3, (), random.Random(1)) == pick(memory, 3, (), random.Random(1))
    assert pick(memory, 3, (), random.Random(1)) != pick(memory, 3, (), random.Random(2))


def test_a_step_remembers_the_groups_whose_variance_is_defined():
    empty = Trajectory(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, np.float32), 0)

    def group(name, *rewards):
        return Group(Prompt(name, ""), rewards, (empty,) * len(rewards))

    groups = [group("a", 0.0, 1.0), group("b", 1.0), group("c"), group("d", 1.0, 1.0)]
    assert pairs(groups, 7) == [Pair(7, "a", 0.25), Pair(7, "d", 0.0)]


def test_recent_keeps_the_last_steps_before_this_one():
    memory = [Pair(step, "data:0", 0.1) for step in range(10)]
    assert [pair.step for pair in recent(memory, 10, 4)] == [6, 7, 8, 9]
    assert recent(memory, 10, 99) == memory


@pytest.mark.parametrize(
    ("v", "among", "expected"),
    [
        (0.1, [], 0.5),
        (0.1, [0.1, 0.1], 0.5),
        (0.0, [0.1, 0.2], 0.0),
        (0.3, [0.1, 0.2], 1.0),
        (0.1, [0.0, 0.1, 0.2, 0.2], 0.375),
    ],
)
def test_quantile_is_the_middle_rank(v, among, expected):
    assert quantile(v, among) == expected
