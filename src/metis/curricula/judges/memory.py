"""The calibration memory: recent prompt-variance pairs, and the K exemplars of a judge prompt.

METIS, Sec. 4.1. The paper keeps "the K most recent pairs", which is ambiguous with 256 new ones per
step; its printed examples are always a low, a middle and a high variance in ascending order (0.000,
0.109, 0.250). So are these: K values evenly spaced between the lowest and the highest of the window
(the nearest that occurred), each with a random prompt that had it. All judge prompts of a step have
the same exemplars, so that they share a prefix.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from metis.core import Exemplar, Group, Prompt
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.signal import INFORMATIVE


class Pair(NamedTuple):
    """A prompt's id and its outcome: realised variance and mean reward, with their step."""

    step: int
    prompt: str
    v: float
    mean: float


@dataclass
class Memory(Stateful):
    """The pairs of the last steps."""

    pairs: list[Pair] = field(init=False, default_factory=list)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.pairs = [Pair(*pair) for pair in self.pairs]

    def forget(self, step: int, window: int) -> None:
        """Drop pairs older than `window` steps, except the newest informative one if needed."""
        self.pairs = anchored(self.pairs, step, window)

    def add(self, groups: Iterable[Group], step: int) -> list[Pair]:
        """Algorithm 1, line 7: add the pairs of a step; groups without a variance are skipped."""
        new = [
            Pair(step, group.prompt.id, v, group.mean or 0.0)
            for group in groups
            if (v := group.variance) is not None
        ]
        self.pairs += new
        return new


def recent(memory: Iterable[Pair], step: int, window: int) -> list[Pair]:
    """The pairs of the last `window` steps before `step`."""
    return [pair for pair in memory if pair.step >= step - window]


def anchored(memory: Sequence[Pair], step: int, window: int) -> list[Pair]:
    """The recent pairs, plus the newest informative one if none of them is."""
    kept = recent(memory, step, window)
    if any(pair.v > INFORMATIVE for pair in kept):
        return kept
    older = [pair for pair in memory if pair.v > INFORMATIVE]
    return older[-1:] + kept


def pick(
    memory: Iterable[Pair],
    k: int,
    rng: random.Random,
    value: Callable[[Pair], float] = lambda pair: pair.v,
) -> list[Pair]:
    """K pairs of different prompts, spread over the range of values, in ascending order."""
    usable = list({pair.prompt: pair for pair in memory}.values())
    by_value: dict[float, list[Pair]] = {}
    for pair in usable:
        by_value.setdefault(value(pair), []).append(pair)
    picked = [rng.choice(by_value[v]) for v in spread(sorted(by_value), k)]
    rest = [pair for pair in usable if pair not in picked]
    picked += rng.sample(rest, min(k - len(picked), len(rest)))
    return sorted(picked, key=lambda pair: (value(pair), pair.prompt))


def exemplars(
    memory: Iterable[Pair],
    k: int,
    candidates: Sequence[Prompt],
    batch: int,
    pool: Pool,
    rng: random.Random,
    value: Callable[[Pair], float] = lambda pair: pair.v,
) -> list[Pair]:
    """K pairs of different texts, of candidates only if there are fewer than K others.

    At most as many candidates are used as are not needed to fill the batch. These are then not
    judged: a judge never sees the outcome of the prompt that it judges.
    """
    asked = Counter(prompt.text for prompt in candidates)
    distinct = {pool[pair.prompt].text: pair for pair in memory}
    usable = [pair for text, pair in distinct.items() if text not in asked]
    missing, spare = k - len(usable), len(candidates) - batch
    others = [pair for text, pair in distinct.items() if text in asked]
    for pair in rng.sample(others, len(others)) if missing > 0 else ():
        lost = asked[pool[pair.prompt].text]
        if missing and lost <= spare:
            usable.append(pair)
            missing, spare = missing - 1, spare - lost
    return pick(usable, k, rng, value)


def split_exemplars(
    picked: Sequence[Pair],
    candidates: Sequence[Prompt],
    pool: Pool,
    value: Callable[[Pair], float] = lambda pair: pair.v,
) -> tuple[list[Exemplar], list[Prompt]]:
    """The exemplars of a step, and the remaining candidates, which are judged."""
    shown = [Exemplar(pool[p.prompt], value(p), p.v, p.step + 1) for p in picked]
    texts = {exemplar.prompt.text for exemplar in shown}
    return shown, [prompt for prompt in candidates if prompt.text not in texts]


def replayed(
    memory: Iterable[Pair], count: int, avoid: Collection[str], rng: random.Random
) -> list[Pair]:
    """Sample outcomes to replay, independent of their values.

    Selection depends only on the prompts, so outcomes need no importance weights.
    """
    latest = {pair.prompt: pair for pair in memory if pair.prompt not in avoid}
    return rng.sample(list(latest.values()), min(count, len(latest)))


def spread(values: Sequence[float], k: int) -> list[float]:
    """At most k distinct values, nearest to k evenly spaced points of the range."""
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
