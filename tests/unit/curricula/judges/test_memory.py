import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis import Pool
from metis.core import Group, Prompt, Trajectory
from metis.curricula.judges.memory import (
    Memory,
    Pair,
    anchored,
    exemplars,
    pick,
    quantile,
    recent,
    replayed,
    split_exemplars,
    spread,
)

deterministic = settings(derandomize=True, deadline=None)
LEVELS = sorted({passes * (8 - passes) / 64 for passes in range(9)})
memories = st.lists(
    st.builds(
        Pair,
        st.integers(0, 3),
        st.integers(0, 9).map(lambda number: f"data:{number}"),
        st.sampled_from(LEVELS),
        st.just(0.5),
    ),
    max_size=25,
)


def remember(*variances):
    return [Pair(0, f"data:{i}", v, 0.5) for i, v in enumerate(variances)]


def variances_of(picked):
    return [pair.v for pair in picked]


def test_three_exemplars_are_those_of_the_paper():
    assert spread(LEVELS, 3) == [0.0, 0.109375, 0.25]
    memory = remember(*(passes * (8 - passes) / 64 for passes in range(9)))
    for seed in range(20):
        picked = pick(memory, 3, random.Random(seed))
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


def test_no_exemplars_are_wanted_or_none_anchored():
    assert pick(remember(0.0, 0.25), 0, random.Random(0)) == []
    assert pick([], 3, random.Random(0)) == []


def test_a_single_exemplar_is_the_middle_one():
    assert variances_of(pick(remember(*LEVELS), 1, random.Random(0))) == [0.109375]


def test_fewer_distinct_variances_than_exemplars_are_filled_with_other_prompts():
    picked = pick(remember(0.25, 0.0, 0.0, 0.0), 3, random.Random(0))
    assert variances_of(picked) == [0.0, 0.0, 0.25]
    assert len({pair.prompt for pair in picked}) == 3
    assert variances_of(pick(remember(0.25, 0.0), 3, random.Random(0))) == [0.0, 0.25]


def test_every_prompt_of_a_variance_can_be_shown():
    memory = remember(0.0, 0.1, 0.1, 0.1, 0.25)
    shown = {pick(memory, 3, random.Random(seed))[1].prompt for seed in range(50)}
    assert shown == {"data:1", "data:2", "data:3"}


def test_the_latest_pair_of_a_prompt_counts():
    memory = [Pair(1, "data:0", 0.25, 0.5), Pair(2, "data:0", 0.0, 1.0)]
    assert pick(memory, 3, random.Random(0)) == memory[1:]


@deterministic
@given(memories, st.integers(0, 5))
def test_exemplars_are_of_distinct_prompts_in_ascending_order(memory, k):
    picked = pick(memory, k, random.Random(0))
    latest = {pair.prompt: pair for pair in memory}
    shown = [pair.prompt for pair in picked]
    assert len(shown) == len(set(shown)) == min(k, len(latest))
    assert all(latest[pair.prompt] == pair for pair in picked)
    assert variances_of(picked) == sorted(variances_of(picked))
    if k > 1 and latest:
        values = [pair.v for pair in latest.values()]
        assert (picked[0].v, picked[-1].v) == (min(values), max(values))


def test_exemplars_are_fixed_by_the_generator():
    memory = remember(*[0.0] * 10, *[0.1] * 10, *[0.25] * 10)
    assert pick(memory, 3, random.Random(1)) == pick(memory, 3, random.Random(1))
    assert pick(memory, 3, random.Random(1)) != pick(memory, 3, random.Random(2))


def test_a_step_remembers_the_groups_whose_variance_is_defined():
    empty = Trajectory(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, np.float32), 0)

    def group(name, *rewards):
        return Group(Prompt(name, ""), rewards, (empty,) * len(rewards))

    groups = [group("a", 0.0, 1.0), group("b", 1.0), group("c"), group("d", 1.0, 1.0)]
    memory = Memory()
    new = memory.add(groups, 7)
    assert new == memory.pairs == [Pair(7, "a", 0.25, 0.5), Pair(7, "d", 0.0, 1.0)]
    assert memory.add(groups[:1], 8) == memory.pairs[2:] == [Pair(8, "a", 0.25, 0.5)]


def test_recent_keeps_the_last_steps_before_this_one():
    memory = [Pair(step, "data:0", 0.1, 0.5) for step in range(10)]
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


def test_the_newest_informative_pair_stays_until_a_newer_one_comes():
    dead = [Pair(step, f"data:{step}", 0.0, 0.0) for step in range(4, 10)]
    old = [Pair(1, "data:1", 0.1, 0.5), Pair(2, "data:2", 0.2, 0.5)]
    assert anchored(old + dead, 10, 4) == [old[1], *dead[2:]]
    assert anchored(dead, 10, 4) == dead[2:]
    newer = Pair(9, "data:9", 0.1, 0.5)
    assert anchored([*old, *dead, newer], 10, 4) == [*dead[2:], newer]
    memory = Memory()
    memory.pairs = [*old, *dead]
    memory.forget(10, 4)
    assert memory.pairs == [old[1], *dead[2:]]


def test_saved_pairs_come_back_as_pairs():
    memory, other = Memory(), Memory()
    memory.pairs = remember(0.0, 0.25)
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert other == memory and other.pairs[1].v == 0.25


def test_passes_are_spread_over_the_mean_reward():
    memory = [Pair(0, f"data:{k}", k * (8 - k) / 64, k / 8) for k in range(9)]
    shown = pick(memory, 3, random.Random(0), lambda pair: 8 * pair.mean)
    assert [pair.mean for pair in shown] == [0.0, 0.5, 1.0]


POOL = Pool([Prompt(f"data:{i}", f"text {i % 20}") for i in range(24)])
"""The last four have the texts of the first four."""


def shown(memory, candidates, batch, k=3):
    asked = [POOL.prompts[i] for i in candidates]
    return exemplars(memory, k, asked, batch, POOL, random.Random(0))


def test_an_exemplar_is_never_a_candidate_nor_has_its_text():
    memory = remember(0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
    assert [pair.v for pair in shown(memory, range(6, 20), 4)] == [0.0, 0.1, 0.25]
    texts = {pair.prompt for pair in shown(memory, [20, 21], 2)}  # the texts of data:0 and data:1
    assert not texts & {"data:0", "data:1"} and len(texts) == 3


def test_two_exemplars_never_have_the_same_text():
    memory = [Pair(0, name, v, 0.5) for name, v in (("data:0", 0.0), ("data:20", 0.25))]
    assert [pair.prompt for pair in shown(memory, range(5, 9), 2)] == ["data:20"]


def test_candidates_are_shown_only_as_far_as_the_batch_can_spare_them():
    memory = remember(0.0, 0.1, 0.25)
    assert len(shown(memory, range(3), 3)) == 0
    assert [pair.prompt for pair in shown(memory, range(2), 2)] == ["data:2"]
    assert len(shown(memory, range(4), 3)) == 1
    assert len(shown(memory, range(8), 3)) == 3
    both = {pair.prompt for pair in shown(memory, [0, 20, 21, 5], 3)}
    assert both == {"data:1", "data:2"}, "to show data:0 would lose two candidates"


def test_an_exemplar_says_what_happened_and_when_and_is_not_judged():
    picked = [Pair(3, "data:1", 0.25, 0.5), Pair(4, "data:2", 0.0, 1.0)]
    asked = [POOL["data:21"], POOL["data:5"]]  # data:21 has the text of data:1
    examples, judged = split_exemplars(picked, asked, POOL, lambda pair: 8 * pair.mean)
    assert [(e.prompt.id, e.value, e.variance, e.step) for e in examples] == [
        ("data:1", 4.0, 0.25, 4),
        ("data:2", 8.0, 0.0, 5),
    ]
    assert [prompt.id for prompt in judged] == ["data:5"]


def test_replay_takes_the_latest_outcome_of_each_prompt_but_those_of_the_step():
    memory = [Pair(0, "data:0", 0.25, 0.5), *remember(0.0, 0.1, 0.2)[1:], Pair(1, "data:0", 0.0, 1)]
    again = replayed(memory, 9, {"data:1"}, random.Random(0))
    assert sorted(again) == [Pair(0, "data:2", 0.2, 0.5), Pair(1, "data:0", 0.0, 1)]
    assert replayed(memory, 0, (), random.Random(0)) == []


def test_replay_is_not_drawn_by_the_outcome():
    memory = remember(*[0.0] * 8, 0.25, 0.25)
    counts = dict.fromkeys((pair.prompt for pair in memory), 0)
    for seed in range(2000):
        for pair in replayed(memory, 5, (), random.Random(seed)):
            counts[pair.prompt] += 1
    assert all(abs(count - 1000) < 5 * 500**0.5 for count in counts.values())
