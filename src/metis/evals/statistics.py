"""Means with their standard errors, of one benchmark and over several."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A mean and its standard error."""

    mean: float
    error: float


def mean(values: Sequence[float]) -> Estimate:
    """Over problems; of several samples of one, which are not independent, the mean enters."""
    return Estimate(float(np.mean(values)), float(np.std(values) / math.sqrt(len(values))))


def average(parts: Sequence[Estimate]) -> Estimate:
    """Over benchmarks, each with the same weight, as in the paper's tables."""
    error = math.sqrt(sum(part.error**2 for part in parts)) / len(parts)
    return Estimate(float(np.mean([part.mean for part in parts])), error)
