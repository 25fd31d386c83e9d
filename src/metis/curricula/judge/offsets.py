"""Offsets of the judge's answers, outside the network: what all prompts have in common.

P = softmax(log-probabilities + b). Most of what a judge has to learn at first is how often each
answer is right at all; learnt by the network, that is a large gradient through the prefix that all
judge prompts share, and says nothing about any of them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metis.curricula.judge.judgment import Scored
from metis.signal import softmax

RATE = 0.5
LARGEST = 8.0
"""No offset is farther from zero than this."""


Labelled = tuple[int, NDArray[np.float64], NDArray[np.float64]]
"""A step, the answers' log-probabilities in its judgments, and their targets: a row a judgment."""


def labelled(scored: Sequence[Scored], step: int) -> list[Labelled]:
    """The judgments of a step as rows to fit the offsets to."""
    rows = [item for item in scored if item.verdict.distribution is not None]
    if not rows:
        return []
    logprobs = np.array([item.verdict.logprobs for item in rows])
    return [(step, logprobs, np.stack([item.verdict.scale.two_hot(item.point) for item in rows]))]


def moved(offsets: Sequence[float], steps: Sequence[Labelled]) -> list[float]:
    """b += rate (log mean y - log mean P) over the judgments of some steps, smoothed by one."""
    if not steps:
        return list(offsets)
    logprobs, targets = (np.concatenate([step[i] for step in steps]) for i in (1, 2))
    b = np.array(offsets or [0.0] * logprobs.shape[1])
    epsilon = 1.0 / len(logprobs)
    predicted = softmax(logprobs + b).mean(axis=0)
    b = b + RATE * (np.log(targets.mean(axis=0) + epsilon) - np.log(predicted + epsilon))
    bounded: list[float] = np.clip(b - b.mean(), -LARGEST, LARGEST).tolist()
    return bounded
