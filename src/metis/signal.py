"""The paper's formulas as pure functions: advantages, variance, the judge's reward, top-B.

METIS, Eq. 1 (advantage), Eq. 3 (variance), Eq. 6 (top-B) and Eq. 8 (judge reward), in the order
of the paper's labels `centered_advantage`, `reward_variance`, `topb_selection`, `judge_reward`.
"""

import math
import random
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

VARIANCE_MAX = 0.25
"""Rewards in [0, 1] have variance at most 1/4, reached by a fair coin."""

INFORMATIVE = 1e-6
"""A group is informative (has a gradient) when its variance is above this."""


def advantages(rewards: Sequence[float]) -> NDArray[np.float64]:
    """A_i = r_i - mean(r), with no division by the standard deviation."""
    values = np.asarray(rewards, dtype=np.float64)
    return values - values.mean() if values.size else values


def variance(rewards: Sequence[float]) -> float:
    """v = mean of A_i squared: the population variance (ddof 0), bounded by 1/4.

    The paper calls it unbiased; its expectation is (n - 1)/n of the policy's variance. It is kept
    because it is exactly the mean squared advantage, the size of the learning signal.
    """
    if len(rewards) < 2:
        raise ValueError(f"the variance of {len(rewards)} reward(s) is undefined; it needs two")
    return _mean_square(tuple(rewards))


@lru_cache(1 << 12)
def _mean_square(rewards: tuple[float, ...]) -> float:
    """Of the advantages; few rewards have few patterns, and every step asks for them often."""
    return float(np.mean(np.square(advantages(rewards))))


def judge_reward(v_hat: float, v: float) -> float:
    """R = 1 - (4 (v_hat - v))^2: 1 for a perfect prediction, 0 for the worst possible one."""
    return 1.0 - (4.0 * (v_hat - v)) ** 2


def top_b(scores: Sequence[float | None], b: int, rng: random.Random | None) -> list[int]:
    """Indices of the b highest scores, best first; None (no score) ranks last.

    Ties are broken by `rng`: with eleven possible judgments, most of a batch is tied. Without
    `rng`, ties keep their order.
    """
    if any(score is not None and math.isnan(score) for score in scores):
        raise ValueError("a score is NaN; use None for a prompt that could not be scored")
    order = list(range(len(scores)))
    if rng is not None:
        rng.shuffle(order)
    keys = [-math.inf if score is None else score for score in scores]
    missing = [score is None for score in scores]
    order.sort(key=lambda i: (missing[i], -keys[i]))
    return order[: max(b, 0)]


def softmax(logits: ArrayLike) -> NDArray[np.float64]:
    """Softmax over the last axis, in float64."""
    values = np.asarray(logits, dtype=np.float64)
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True), dtype=np.float64)
