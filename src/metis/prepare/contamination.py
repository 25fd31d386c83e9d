"""Training problems that are in an evaluation set: the same words, or a large part of them.

An n-gram is N consecutive words of a problem (`wording.words`). Those in more than PHRASE training
problems are phrases ("where m and n are relatively prime positive integers"), not traces of a
problem, and do not count. A training problem is contaminated when its words equal an evaluation
problem's, or when it holds at least SHARE of the evaluation problem's counting n-grams. This finds
copies, copies with another question at the end, and variants with another number; a problem of
fewer than N words is found by equality only.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from metis.prepare.wording import words

N = 8
PHRASE = 5
SHARE = 0.5


class Match(NamedTuple):
    """The evaluation problem that a training problem repeats, and how much of it (1 is all)."""

    evaluation: str
    share: float


def find(training: Sequence[str], evaluation: Mapping[str, str]) -> dict[int, Match]:
    """Indices of the training problems that repeat an evaluation problem; texts by id."""
    identical: dict[tuple[str, ...], str] = {}
    holders: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, text in evaluation.items():
        said = words(text)
        identical.setdefault(said, name)
        for gram in _grams(said):
            holders[gram].append(name)
    texts = [words(text) for text in training]
    shared = [[gram for gram in _grams(said) if gram in holders] for said in texts]
    frequency = Counter(gram for grams in shared for gram in grams)
    telling = Counter(
        name for gram, names in holders.items() if frequency[gram] <= PHRASE for name in names
    )
    found: dict[int, Match] = {}
    for index, (said, grams) in enumerate(zip(texts, shared, strict=True)):
        if said and said in identical:
            found[index] = Match(identical[said], 1.0)
            continue
        held = Counter(
            name for gram in grams if frequency[gram] <= PHRASE for name in holders[gram]
        )
        shares = {name: count / telling[name] for name, count in held.items()}
        nearest = max(shares, key=lambda name: shares[name], default=None)
        if nearest is not None and shares[nearest] >= SHARE:
            found[index] = Match(nearest, shares[nearest])
    return found


def _grams(said: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {said[start : start + N] for start in range(len(said) - N + 1)}
