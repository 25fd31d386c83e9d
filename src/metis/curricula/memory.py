"""The calibration memory: recent prompt-variance pairs, and the K of them a judge is shown.

METIS, Sec. 4.1. The paper keeps "the K most recent pairs", which a step of 256 new ones leaves
open; its printed examples are always a low, a middle and a high variance in ascending order
(0.000, 0.109, 0.250). So are these: K values spread evenly between the lowest and the highest of
the window, the nearest that occurred, each shown by one prompt drawn from those that had it.
"""

import random
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from metis.core import Group


class Pair(NamedTuple):
    """A prompt's id, its realised variance, and the step that realised it."""

    step: int
    prompt: str
    v: float


def pairs(groups: Iterable[Group], step: int) -> list[Pair]:
    """What a step adds to the memory: every group whose variance is defined."""
    return [Pair(step, g.prompt.id, v) for g in groups if (v := g.variance) is not None]


def recent(memory: Iterable[Pair], step: int, window: int) -> list[Pair]:
    """The pairs realised in the last `window` steps before `step`."""
    return [pair for pair in memory if pair.step >= step - window]


def pick(memory: Iterable[Pair], k: int, avoid: Collection[str], rng: random.Random) -> list[Pair]:
    """K pairs of different prompts, spread over the variances seen, in ascending order.

    Prompts in `avoid` (the candidates of this step) are shown only when there are fewer than K
    others.
    """
    latest = {pair.prompt: pair for pair in memory}
    usable = [pair for pair in latest.values() if pair.prompt not in avoid]
    if len(usable) < k:
        usable = list(latest.values())
    by_value: dict[float, list[Pair]] = {}
    for pair in usable:
        by_value.setdefault(pair.v, []).append(pair)
    picked = [rng.choice(by_value[v]) for v in spread(sorted(by_value), k)]
    rest = [pair for pair in usable if pair not in picked]
    picked += rng.sample(rest, min(k - len(picked), len(rest)))
    return sorted(picked, key=lambda pair: (pair.v, pair.prompt))


def spread(values: Sequence[float], k: int) -> list[float]:
    """At most k distinct values, each nearest to one of k evenly spaced points of the range."""
    if not values or k < 1:
        return []
    low, high = values[0], values[-1]
    points = np.linspace(low, high, k) if k > 1 else [(low + high) / 2]
    chosen: list[float] = []
    for point in sorted(points, key=lambda p: min(p - low, high - p)):  # the ends first
        left = [value for value in values if value not in chosen]
        if left:
            chosen.append(min(left, key=lambda value: abs(value - point)))
    return sorted(chosen)


def quantile(v: float, among: Sequence[float]) -> float:
    """Mid-rank of v among recent variances, from 0 to 1."""
    values = np.asarray(among, dtype=np.float64)
    if values.size == 0:
        return 0.5
    return float((np.sum(values < v) + 0.5 * np.sum(values == v)) / values.size)
