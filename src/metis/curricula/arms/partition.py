"""Partitions of the training set into arms, and sampling from them.

Shared by bandits (`sec`, `dump`) and schedules (`e2h`). Arms are sorted by difficulty if known,
otherwise by name in natural order (2 before 10). Clusters are those of seeded k-means on the
policy's hidden states. These are collected over several steps and saved in between, so each is kept
as a random projection to few dimensions, which preserves the cost of every clustering up to a small
factor (Makarychev et al., arXiv 1811.03195).
"""

import math
import random
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Group
from metis.core.pool import Pool
from metis.errors import MetisError, require
from metis.signal import advantages

Objective = Literal["normalised", "raw"]


class Partition(NamedTuple):
    """The names of the arms, and the arm of each prompt."""

    names: list[str]
    arm_of: list[int]


def difficulties(pool: Pool) -> NDArray[np.float64] | None:
    """The difficulties in the data; None unless all prompts have one."""
    given = [prompt.difficulty for prompt in pool.prompts]
    finite = [value for value in given if value is not None and math.isfinite(value)]
    return np.array(finite) if len(finite) == len(given) else None


def by_label(pool: Pool, order: Sequence[str] = ()) -> Partition:
    """One arm per category of the data, in the given order if any."""
    require_labels(pool, "curriculum.categories = 'label'", "use difficulty or clusters instead")
    names = list(order) or label_order(pool)
    require(
        sorted(names) == sorted(pool.categories),
        "curriculum.order",
        names,
        f"name every category of the data once: {', '.join(map(repr, label_order(pool)))}",
    )
    position = {name: arm for arm, name in enumerate(names)}
    return Partition(names, [position[prompt.category] for prompt in pool.prompts])


def require_labels(pool: Pool, setting: str, remedy: str) -> None:
    """Refuse data whose prompts all have the same category."""
    if len(pool.categories) == 1 < len(pool):
        label = next(iter(pool.categories))
        raise MetisError(
            f"{setting}: all {len(pool)} training prompts have the category {label!r}; "
            f"{remedy}, or give the data categories"
        )


def label_order(pool: Pool) -> list[str]:
    """The categories of the data, from easy to hard if known, otherwise by name."""
    difficulty = difficulties(pool)
    if difficulty is None:
        return sorted(pool.categories, key=_natural)
    mean = {name: float(difficulty[members].mean()) for name, members in pool.categories.items()}
    return sorted(pool.categories, key=lambda name: (mean[name], _natural(name)))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A natural sort key: level-2 before level-10."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def by_quantile(values: NDArray[np.float64], arms: int, rng: random.Random) -> Partition:
    """Arms of equal size, from the lowest values to the highest; ties are split at random.

    A prompt that could not be measured (NaN) counts as average.
    """
    measured = values[~np.isnan(values)]
    average = measured.mean() if measured.size else 0.0
    ties = np.array([rng.random() for _ in values])
    order = np.lexsort((ties, np.where(np.isnan(values), average, values)))
    arm_of = np.empty(len(values), dtype=np.int64)
    parts = np.array_split(order, min(arms, len(values)))
    for arm, members in enumerate(parts):
        arm_of[members] = arm
    return Partition([f"difficulty-{i + 1}" for i in range(len(parts))], arm_of.tolist())


def by_cluster(clusters: NDArray[np.int64], difficulty: NDArray[np.float64] | None) -> Partition:
    """One arm per cluster, from easy to hard if known, otherwise as numbered."""
    arms = int(clusters.max()) + 1
    order = np.arange(arms)
    if difficulty is not None:
        order = np.argsort([difficulty[clusters == i].mean() for i in range(arms)], kind="stable")
    position = np.argsort(order)
    return Partition([f"cluster-{i + 1}" for i in range(arms)], position[clusters].tolist())


def draw_arms(
    chances: Sequence[float] | NDArray[np.float64],
    sizes: Sequence[int],
    slots: int,
    rng: random.Random,
    whole: bool = False,
) -> list[int]:
    """Sample an arm for each slot independently; with `whole`, one arm fills as many as it can.

    An arm whose prompts are all in the batch is not sampled again, so a batch is short only if all
    arms with a probability above 0 have too few prompts.
    """
    left = list(sizes)
    drawn: list[int] = []
    while len(drawn) < slots:
        weights = [
            float(chance) if room else 0.0 for chance, room in zip(chances, left, strict=True)
        ]
        if not any(weights):
            break
        arm = rng.choices(range(len(left)), weights)[0]
        taken = min(left[arm], slots - len(drawn)) if whole else 1
        drawn += [arm] * taken
        left[arm] -= taken
    return drawn


def absolute_advantages(group: Group, objective: Objective) -> list[float]:
    """|A| of each rollout; empty with fewer than two valid ones.

    `normalised` divides by the group's standard deviation (ddof 1, epsilon 1e-6) as in common GRPO
    implementations; `raw` is METIS, Eq. 1.
    """
    if len(group.rewards) < 2:
        return []
    values = advantages(group.rewards)
    if objective == "normalised":
        values = values / (np.std(group.rewards, ddof=1) + 1e-6)
    magnitudes: list[float] = np.abs(values).tolist()
    return magnitudes


DIMENSIONS = 64
ROUNDS = 100


def project(vectors: Sequence[NDArray[np.float32]], rng: random.Random) -> NDArray[np.float32]:
    """Random projection to at most 64 dimensions; the same `rng` gives the same projection."""
    rows = np.asarray(vectors, dtype=np.float32)
    width = rows.shape[1]
    if width <= DIMENSIONS:
        return rows
    directions = np.random.default_rng(rng.getrandbits(64)).standard_normal((width, DIMENSIONS))
    return np.asarray(rows @ directions / np.sqrt(DIMENSIONS), dtype=np.float32)


def kmeans(vectors: NDArray[np.float32], k: int, rng: random.Random) -> NDArray[np.int64]:
    """The cluster of each vector: at most k, numbered from 0, none empty.

    Vectors are centred and normalised, since hidden states share large components. Initialised by
    k-means++ (Arthur and Vassilvitskii, 2007).
    """
    points = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    generator = np.random.default_rng(rng.getrandbits(64))
    centres = _spread(points, k, generator)
    clusters = _nearest(points, centres)
    for _ in range(ROUNDS):
        members = [points[clusters == i] for i in range(len(centres))]
        centres = np.stack([part.mean(axis=0) for part in members if len(part)])
        before, clusters = clusters, _nearest(points, centres)
        if np.array_equal(before, clusters):
            break
    return np.asarray(np.unique(clusters, return_inverse=True)[1], dtype=np.int64)


def _spread(
    points: NDArray[np.float64], k: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """k-means++ initialisation."""
    centres = [points[generator.integers(len(points))]]
    distance = _squares(points, centres[0])
    while len(centres) < k and distance.sum() > 1e-12:
        chosen = generator.choice(len(points), p=distance / distance.sum())
        centres.append(points[chosen])
        distance = np.minimum(distance, _squares(points, centres[-1]))
    return np.stack(centres)


def _squares(points: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.square(points - centre).sum(axis=1), dtype=np.float64)


def _nearest(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.int64]:
    distances = np.square(centres).sum(axis=1) - 2.0 * points @ centres.T
    return np.asarray(distances.argmin(axis=1), dtype=np.int64)
