"""Exemplars of a judge: outcomes next to the frontier, or like the candidates."""

import random

import numpy as np
import pytest
from metis.curricula.judge.exemplars import frontier, show, similar, word_vectors
from metis.curricula.judge.memory import Pair
from metis.curricula.judge.scale import PASSES
from metis.curricula.judge.target import Target

from metis import Pool, Prompt

TEXTS = {
    "circle": "Find the area of a circle of radius 3.",
    "square": "Find the area of a square of side 4.",
    "prime": "How many primes divide 210?",
    "divisors": "How many divisors has 360?",
    "dice": "Two dice are rolled. What is the chance of a sum of 7?",
}
POOL = Pool([Prompt(name, text) for name, text in TEXTS.items()])


def remember(**means):
    return [Pair(0, name, mean * (1 - mean), mean) for name, mean in means.items()]


def names(pairs):
    return [pair.prompt for pair in pairs]


def test_the_frontier_is_shown_from_below_and_from_above():
    memory = remember(circle=0.0, square=0.375, prime=0.75, divisors=1.0, dice=0.125)
    picked = frontier(memory, 4, random.Random(0), lambda pair: pair.v)
    assert names(picked) == ["square", "prime", "dice", "divisors"]
    assert names(frontier(memory[:2], 4, random.Random(0), None)) == ["square", "circle"]
    assert frontier([], 3, random.Random(0), None) == []


def test_a_prompt_s_latest_outcome_counts():
    memory = [*remember(circle=0.5), *remember(circle=1.0, square=0.625)]
    assert names(frontier(memory, 1, random.Random(0), None)) == ["square"]


def test_those_like_the_candidates_are_shown_and_cover_them():
    memory = remember(circle=0.5, square=0.5, prime=0.0, divisors=1.0, dice=0.5)
    shapes = [Prompt("a", "Find the area of a circle of radius 8."), Prompt("b", "A circle's area")]
    assert names(similar(memory, 1, shapes, POOL)) == ["circle"]
    both = [*shapes, Prompt("c", "How many divisors has 100?")]
    assert set(names(similar(memory, 2, both, POOL))) == {"circle", "divisors"}
    assert len(similar(memory, 9, both, POOL)) == 5
    assert similar([], 3, both, POOL) == []


def test_words_that_all_texts_have_say_nothing():
    vectors = word_vectors(["the cat", "the dog", "the cat"])
    assert np.allclose(vectors @ vectors.T, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert np.isfinite(word_vectors(["", "same", "same"])).all()


@pytest.mark.parametrize("kind", ["spread", "frontier", "similar"])
def test_whatever_the_kind_no_candidate_is_shown_and_order_is_kept(kind):
    memory = remember(circle=0.0, square=0.5, prime=1.0, dice=0.25)
    candidates = [POOL["divisors"], POOL["circle"]]
    arguments = (kind, memory, 3, candidates, 2, POOL, Target(PASSES, None))
    found = show(*arguments, "ascending", random.Random(1))
    assert {each.prompt.id for each in found} == {"square", "prime", "dice"}
    assert [each.value for each in found] == [2.0, 4.0, 8.0]
    orders = {
        tuple(each.value for each in show(*arguments, "shuffled", random.Random(seed)))
        for seed in range(9)
    }
    assert len(orders) > 1
