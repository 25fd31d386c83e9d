"""The exemplars a judge is shown: which outcomes of the memory, one draw for a whole step.

One draw, so that all judge prompts of a step share their prefix.

spread    K values from the lowest to the highest seen, as the paper's examples are (`memory.pick`)
frontier  the outcomes next to a mean reward of 1/2, in turn below and above it
similar   the outcomes that together are most like the candidates: greedily, the one that adds most
          to the sum over the candidates of their highest similarity (a facility-location cover,
          Lin and Bilmes, 2011), by the cosine of words weighted by how rare they are
"""

import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metis.core import Exemplar, Prompt
from metis.core.pool import Pool
from metis.curricula.judge.memory import Pair, exemplars, pick
from metis.curricula.judge.target import Target

Kind = Literal["spread", "frontier", "similar"]
Pick = Callable[[Iterable[Pair], int, random.Random, Callable[[Pair], float]], list[Pair]]

COLUMNS = 2048
"""Words are hashed into so many columns."""

FRONTIER = 0.5


def show(
    kind: Kind,
    memory: Iterable[Pair],
    count: int,
    candidates: Sequence[Prompt],
    batch: int,
    pool: Pool,
    target: Target,
    order: str,
    rng: random.Random,
) -> list[Exemplar]:
    """The exemplars of a step, in ascending order of their outcomes or shuffled."""
    choose: dict[Kind, Pick] = {
        "spread": pick,
        "frontier": frontier,
        "similar": lambda pairs, k, *rest: similar(pairs, k, candidates, pool),
    }
    picked = exemplars(memory, count, candidates, batch, pool, target.point, rng, choose[kind])
    ordered = sorted(picked, key=lambda pair: (target.point(pair), pair.prompt))
    if order == "shuffled":
        rng.shuffle(ordered)
    return [Exemplar(pool[p.prompt], target.point(p), p.v, p.step + 1) for p in ordered]


def frontier(
    memory: Iterable[Pair], k: int, rng: random.Random, value: Callable[[Pair], float]
) -> list[Pair]:
    """K pairs of the mean rewards nearest to 1/2, in turn below and above it, ties at random."""
    latest = list({pair.prompt: pair for pair in memory}.values())
    rng.shuffle(latest)
    nearest = sorted(latest, key=lambda pair: abs(pair.mean - FRONTIER))
    sides = [
        [pair for pair in nearest if pair.mean <= FRONTIER],
        [pair for pair in nearest if pair.mean > FRONTIER],
    ]
    picked: list[Pair] = []
    while len(picked) < k and any(sides):
        side = sides[len(picked) % 2] or sides[(len(picked) + 1) % 2]
        picked.append(side.pop(0))
    return picked


def similar(memory: Iterable[Pair], k: int, candidates: Sequence[Prompt], pool: Pool) -> list[Pair]:
    """K pairs that cover the candidates best."""
    latest = list({pair.prompt: pair for pair in memory}.values())
    if not latest or not candidates:
        return latest[:k]
    texts = [pool[pair.prompt].text for pair in latest]
    vectors = word_vectors([*texts, *(prompt.text for prompt in candidates)])
    likeness = vectors[len(texts) :] @ vectors[: len(texts)].T
    covered, chosen = np.zeros(len(candidates)), list[int]()
    for _ in range(min(k, len(latest))):
        gain = np.maximum(likeness, covered[:, None]).sum(axis=0)
        gain[chosen] = -math.inf
        chosen.append(int(gain.argmax()))
        covered = np.maximum(covered, likeness[:, chosen[-1]])
    return [latest[i] for i in chosen]


def word_vectors(texts: Sequence[str]) -> NDArray[np.float64]:
    """TF-IDF vectors over hashed words, of unit norm."""
    counts = np.zeros((len(texts), COLUMNS))
    for row, text in zip(counts, texts, strict=True):
        for word, count in Counter(re.findall(r"\w+|[^\w\s]", text.lower())).items():
            row[zlib.crc32(word.encode()) % COLUMNS] += count
    rarity = np.log((1 + len(texts)) / (1 + np.count_nonzero(counts, axis=0)))
    weighted = np.log1p(counts) * rarity
    lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
    return np.asarray(weighted / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)
