"""Means with standard errors, and kinds of groups by their rewards."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis.signal import INFORMATIVE, variance

NORMAL = 1.96
"""Half the width of a 95% interval, in standard errors."""
KINDS = ("all-fail", "informative", "all-pass", "failed")
RARE = 0.05
"""Share of informative groups below which most rollouts teach nothing: METIS paid there, on
additions (docs/when-it-pays.md)."""


STUDENT = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The 97.5% quantile of Student's t from two degrees of freedom on; the last for all beyond, for
which it is too wide rather than too narrow."""


def student(freedom: int) -> float:
    """Half the width of a 95% interval in standard errors, for two degrees of freedom or more."""
    return STUDENT[min(freedom - 2, len(STUDENT) - 1)]


class Estimate(NamedTuple):
    """A mean and its standard error; None where it cannot be estimated."""

    mean: float
    error: float | None


def mean(values: Sequence[float]) -> Estimate:
    """The mean over problems; several samples of one problem enter as their mean.

    There is no standard error for a single value or for equal values: 0 of 30 correct is an
    accuracy that may well be 0.05, not one without error.
    """
    varies = min(values) < max(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if varies else None
    return Estimate(float(np.mean(values)), error)


def mean_over_benchmarks(parts: Sequence[Estimate]) -> Estimate:
    """The mean over benchmarks, each with the same weight, as in the paper's tables."""
    errors = [part.error for part in parts if part.error is not None]
    complete = len(errors) == len(parts)
    error = math.sqrt(sum(error**2 for error in errors)) / len(parts) if complete else None
    return Estimate(float(np.mean([part.mean for part in parts])), error)


def group_kind(rewards: Sequence[float]) -> str:
    """`informative` where rewards differ; else `all-fail` or `all-pass`.

    `failed` with fewer than two rewards.
    """
    if len(rewards) < 2:
        return "failed"
    if variance(rewards) > INFORMATIVE:
        return "informative"
    return "all-fail" if np.mean(rewards) < 0.5 else "all-pass"
