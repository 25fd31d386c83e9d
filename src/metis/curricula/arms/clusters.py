"""Clusters of prompts by the policy's hidden states: seeded k-means in numpy.

Vectors are collected over several steps and saved in between, so each is kept as a random
projection to few dimensions, which preserves the cost of every clustering up to a small factor
(Makarychev et al., arXiv 1811.03195).
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
