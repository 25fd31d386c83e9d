"""Means with their standard errors, and the kinds of groups by their rewards."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis.signal import INFORMATIVE, variance

KINDS = ("unsolved", "informative", "solved", "failed")


class Estimate(NamedTuple):
    """A mean and its standard error; None where the values say nothing about it."""

    mean: float
    error: float | None


def mean(values: Sequence[float]) -> Estimate:
    """Over problems; of several samples of one, which are not independent, the mean enters.

    A single value has no spread, and values that are all the same do not show theirs: none right of
    30 is an accuracy that may well be 0.05, not one without error.
    """
    varies = min(values) < max(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if varies else None
    return Estimate(float(np.mean(values)), error)


def average(parts: Sequence[Estimate]) -> Estimate:
    """Over benchmarks, each with the same weight, as in the paper's tables."""
    errors = [part.error for part in parts if part.error is not None]
    complete = len(errors) == len(parts)
    error = math.sqrt(sum(error**2 for error in errors)) / len(parts) if complete else None
    return Estimate(float(np.mean([part.mean for part in parts])), error)


def kind(rewards: Sequence[float]) -> str:
    """`informative` where rewards differ; else `unsolved` or `solved` by the mean reward.

    Below two rewards nothing can be said: `failed`.
    """
    if len(rewards) < 2:
        return "failed"
    if variance(rewards) > INFORMATIVE:
        return "informative"
    return "unsolved" if np.mean(rewards) < 0.5 else "solved"
