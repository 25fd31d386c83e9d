"""The rollouts that METIS is expected to need on a training set, by its informative prompts.

A straight line through the measured training sets, in the logarithms of share and ratio, with the
interval of a single further one. Beyond the shares that were measured it stays at the last of them;
of tasks other than additions nothing is said below the smallest that was measured there.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis.run.statistics import NORMAL, student
from metis.surveys.facts import Share
from metis.surveys.measured import GAINS, Gain

ADDITIONS = "arithmetic"
"""The task that most measured training sets are of."""


class Prediction(NamedTuple):
    """METIS's rollouts to equal accuracy, uniform sampling's = 1, with a 95% interval."""

    rollouts: float
    low: float
    high: float


def least_share(task: str) -> float:
    """The smallest share of informative prompts that was measured on tasks like this one."""
    return min(gain.informative for gain in GAINS if task == ADDITIONS or not gain.additions)


def predict(share: Share, task: str) -> Prediction | None:
    """The prediction for a surveyed share; None of a task other than additions where fewer prompts
    are informative than was measured there, and where none is."""
    if not share.value or (share.value < least_share(task) and task != ADDITIONS):
        return None
    return line(share.value, GAINS, math.log(share.high / share.low) / (2 * NORMAL))


def line(informative: float, gains: Sequence[Gain], error: float = 0.0) -> Prediction:
    """The prediction from these training sets for a share of informative prompts, of whose
    logarithm this is the standard error."""
    x, y = np.log([(gain.informative, gain.cost.rollouts) for gain in gains]).T
    away, spread = x - x.mean(), float(((x - x.mean()) ** 2).sum())
    slope = float(away @ y) / spread
    freedom = len(gains) - 2
    left = y - y.mean() - slope * away
    at = float(np.clip(math.log(informative), x.min(), x.max()) - x.mean())
    variance = float(left @ left) / freedom * (1 + 1 / len(gains) + at**2 / spread)
    half = student(freedom) * math.sqrt(variance + (slope * error) ** 2)
    middle = float(y.mean()) + slope * at
    return Prediction(math.exp(middle), math.exp(middle - half), math.exp(middle + half))
