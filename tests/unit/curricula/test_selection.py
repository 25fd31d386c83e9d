import math
import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.curricula.selection import choice_metrics, choose, explore_slots, inclusion

deterministic = settings(derandomize=True, deadline=None)
score_lists = st.lists(st.none() | st.sampled_from([0.0, 0.025, 0.1, 0.25]), max_size=7)
sizes = st.integers(0, 8)


def key(score):
    return (score is not None, 0.0 if score is None else score)


def by_enumeration(scores, batch, explore):
    total = len(scores)
    batch = min(batch, total)
    slots = list(combinations(range(total), min(explore, batch)))
    probabilities = [0.0] * total
    for explored in slots:
        rest = [i for i in range(total) if i not in explored]
        for i in range(total):
            better = sum(key(scores[j]) > key(scores[i]) for j in rest)
            tied = sum(key(scores[j]) == key(scores[i]) for j in rest)
            room = batch - len(explored) - better
            share = 1.0 if i in explored else min(max(room / tied, 0.0), 1.0)
            probabilities[i] += share / len(slots)
    return probabilities


def within_five_sigma(count, trials, probability):
    tolerance = 5 * math.sqrt(trials * probability * (1 - probability))
    return abs(count - trials * probability) <= tolerance + 1e-6


@pytest.mark.parametrize(
    ("batch", "share", "slots"),
    [(256, 0.1, 26), (8, 0.1, 1), (4, 0.01, 1), (4, 0.0, 0), (0, 0.5, 0), (8, 1.0, 8)],
)
def test_explore_slots_are_a_share_of_the_batch_and_at_least_one(batch, share, slots):
    assert explore_slots(batch, share) == slots


@deterministic
@given(score_lists, sizes, sizes)
def test_inclusion_sums_to_the_size_of_the_batch(scores, batch, explore):
    assert sum(inclusion(scores, batch, explore)) == pytest.approx(min(batch, len(scores)))


@deterministic
@given(score_lists, sizes, sizes)
def test_inclusion_equals_the_enumeration_of_all_slots(scores, batch, explore):
    expected = by_enumeration(scores, batch, explore)
    assert inclusion(scores, batch, explore) == pytest.approx(expected, abs=1e-12)


def test_inclusion_ranks_a_missing_score_below_every_number():
    assert inclusion([None, 0.0], 1, 0) == [0.0, 1.0]
    assert inclusion([None, -1.0, -2.0], 1, 0) == [0.0, 1.0, 0.0]
    assert inclusion([None, -2.0], 1, 0) == [0.0, 1.0]


def test_inclusion_by_hand():
    assert inclusion([0.25, 0.1, 0.1, None], 2, 0) == [1.0, 0.5, 0.5, 0.0]
    assert inclusion([0.25, 0.1, 0.0, None], 2, 1) == pytest.approx([1.0, 0.5, 0.25, 0.25])
    assert inclusion([0.25, 0.1], 2, 2) == [1.0, 1.0]
    assert inclusion([0.2, 0.1, 0.0, None], 2, 2) == [0.5] * 4


@pytest.mark.parametrize("explore", [0, 1, 2])
def test_inclusion_equals_the_frequencies_of_choose(explore):
    scores, batch, trials = [0.25, 0.1, None, 0.1, 0.0, 0.1, None], 3, 4000
    probabilities = inclusion(scores, batch, explore)
    chosen: Counter[int] = Counter()
    for seed in range(trials):
        slots, ties = random.Random(f"{seed}/explore"), random.Random(f"{seed}/ties")
        choice = choose(scores, batch, explore, slots, ties)
        assert choice.propensities == probabilities
        chosen.update(choice.explored + choice.top)
    for i, probability in enumerate(probabilities):
        assert within_five_sigma(chosen[i], trials, probability)


def test_explored_candidates_are_uniform_whatever_their_scores():
    scores, trials = [0.25, 0.2, 0.1, 0.0, None, None], 4000
    explored: Counter[int] = Counter()
    for seed in range(trials):
        explored.update(choose(scores, 3, 2, random.Random(seed), None).explored)
    assert all(within_five_sigma(explored[i], trials, 2 / 6) for i in range(6))


@deterministic
@given(score_lists, sizes, sizes, st.integers(0, 99), st.booleans())
def test_choose_fills_the_batch_with_slots_and_the_best_of_the_rest(
    scores, batch, explore, seed, random_ties
):
    ties = random.Random(seed) if random_ties else None
    explored, top, propensities, tied = choose(
        scores, batch, explore, random.Random(f"{seed}"), ties
    )
    size = min(batch, len(scores))
    assert len(explored) == min(explore, size)
    assert len({*explored, *top}) == len(explored) + len(top) == size
    passed_over = set(range(len(scores))) - {*explored, *top}
    assert all(key(scores[i]) >= key(scores[j]) for i in top for j in passed_over)
    assert len(propensities) == len(scores)
    assert tied == (scores.count(scores[top[-1]]) if top else 0)


def test_choose_is_fixed_by_its_generators():
    def chosen(seed):
        return choose([0.1] * 32, 8, 2, random.Random(seed), random.Random(seed))

    assert chosen(5) == chosen(5)
    assert chosen(5) != chosen(6)


def test_choose_without_a_tie_generator_keeps_the_order_of_the_pool():
    assert choose([0.1, 0.2, 0.1, 0.1], 3, 0, random.Random(0), None).top == [1, 0, 2]


def test_choice_metrics_count_candidates_slots_and_ties():
    choice = choose([0.25, 0.1, 0.1, 0.1], 2, 0, random.Random(0), random.Random(0))
    assert choice_metrics(choice) == {
        "select/candidates": 4.0,
        "select/explored": 0.0,
        "select/tied_at_cut": 3.0,
    }


def test_inclusion_of_a_large_batch_is_quick_and_finite():
    draw = random.Random(0)
    scores = [draw.choice((0.0, 0.1, 0.25)) for _ in range(16384)]
    chances = inclusion(scores, 2048, 205)
    assert sum(chances) == pytest.approx(2048)
    assert all(0.0 <= chance <= 1.0 + 1e-9 for chance in chances)


def test_ties_in_pool_order_are_certain():
    assert inclusion([0.1] * 4, 2, 0, random_ties=False) == [1.0, 1.0, 0.0, 0.0]
