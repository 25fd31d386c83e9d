"""Training problems that are in an evaluation set: the same words, or a large part of them.

An n-gram is N consecutive words of a problem (`wording.words`). Those in more than PHRASE training
problems are phrases ("where m and n are relatively prime positive integers"), not traces of a
problem, and do not count. Variants of an evaluation problem do not make phrases of its words,
however many they are: problems that begin with the same N words, whatever the numbers, and share at
least SHARE of all n-grams, of its own and of theirs. (A form for answers, which other problems have
as well, stands at the end.)

A training problem is contaminated when its words equal an evaluation problem's, or when it holds at
least SHARE of the evaluation problem's counting n-grams. This finds copies, copies with another
question at the end, and variants with another number; a problem of fewer than N words is found by
equality only.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from metis.data.wording import words

N = 8
PHRASE = 5
SHARE = 0.5

Words = tuple[str, ...]


class Match(NamedTuple):
    """The evaluation problem that a training problem repeats, and how much of it (1 is all)."""

    evaluation: str
    share: float


def find(training: Sequence[str], evaluation: Mapping[str, str]) -> dict[int, Match]:
    """Indices of the training problems that repeat an evaluation problem; texts by id."""
    tested = {name: words(text) for name, text in evaluation.items()}
    identical = {said: name for name, said in reversed(tested.items()) if said}
    holders: defaultdict[Words, list[str]] = defaultdict(list)
    for name, said in tested.items():
        for gram in _grams(said):
            holders[gram].append(name)
    places: defaultdict[Words, list[int]] = defaultdict(list)
    texts = [words(text) for text in training]
    for index, said in enumerate(texts):
        for gram in _grams(said) & holders.keys():
            places[gram].append(index)
    best: dict[int, Match] = {}
    for name, said in tested.items():
        for index, share in _shares(said, places, texts).items():
            if share >= SHARE and share > best.get(index, Match("", 0.0)).share:
                best[index] = Match(name, share)
    same = {i: Match(identical[said], 1.0) for i, said in enumerate(texts) if said in identical}
    return dict(sorted((best | same).items()))


def _shares(
    said: Words, places: Mapping[Words, list[int]], texts: Sequence[Words]
) -> dict[int, float]:
    """The share of an evaluation problem, phrases not counted, that each training problem holds."""
    grams = _grams(said)
    held = Counter(index for gram in grams for index in places.get(gram, ()))
    variants = {
        index
        for index, count in held.items()
        if _opening(texts[index]) == _opening(said)
        and count >= SHARE * max(len(grams), len(texts[index]) - N + 1)
    }
    telling = [
        gram
        for gram in grams
        if sum(index not in variants for index in places.get(gram, ())) <= PHRASE
    ]
    counted = Counter(index for gram in telling for index in places.get(gram, ()))
    return {index: count / len(telling) for index, count in counted.items()}


def _opening(said: Words) -> list[str]:
    return ["number" if word.isdigit() else word for word in said[:N]]


def _grams(said: Words) -> set[Words]:
    return {said[start : start + N] for start in range(len(said) - N + 1)}
