"""The judge on trial: half of the batch is its choice, half is uniform, until its choice pays.

Skill is the realised lift: the mean variance of what the judge chose minus that of the uniform
slots of the same step, summed over the last steps and divided by the error that a random
assignment within the steps would have (a stratified permutation test). Drift over the steps cancels
out, and steps without any variance say nothing.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

OPENS, CLOSES = 2.33, 0.0
"""A judge of no skill is above the first in one of a hundred windows."""

NEEDS_UNIFORM = (
    "a trial compares with uniform slots: set curriculum.explore above 0, or curriculum.trial=0"
)
"""The remedy for a trial without any."""


class Comparison(NamedTuple):
    """One step: chosen against uniform slots, and the variance of all outcomes (ddof 1)."""

    step: int
    difference: float
    weight: float
    """n m / (n + m): one over the variance of the difference, were that of an outcome 1."""
    variance: float


class Lift(NamedTuple):
    """Mean difference over the steps, and the same in standard errors of a random choice."""

    mean: float
    z: float


def compared(step: int, chosen: Sequence[float], uniform: Sequence[float]) -> list[Comparison]:
    """The comparison of one step; none where a side is empty or nothing varies."""
    outcomes = np.array([*chosen, *uniform])
    if not (chosen and uniform) or np.ptp(outcomes) == 0:
        return []
    difference = float(np.mean(chosen) - np.mean(uniform))
    weight = len(chosen) * len(uniform) / len(outcomes)
    return [Comparison(step, difference, weight, float(outcomes.var(ddof=1)))]


def realised_lift(comparisons: Sequence[Comparison]) -> Lift | None:
    """Steps count by how much they can tell; None before there is any."""
    if not comparisons:
        return None
    gain = math.fsum(each.weight * each.difference for each in comparisons)
    error = math.sqrt(math.fsum(each.weight * each.variance for each in comparisons))
    return Lift(gain / math.fsum(each.weight for each in comparisons), gain / error)


def on_trial(before: bool, lift: Lift | None) -> bool:
    """True while the judge is, or again becomes, one on trial."""
    if lift is None:
        return before
    return lift.z <= OPENS if before else lift.z < CLOSES


def trial_notice(before: bool | None, now: bool, lift: Lift | None) -> list[str]:
    """A sentence for the person watching, when a trial begins or ends."""
    if now == before:
        return []
    z = f"{lift.z:.1f}" if lift else "no"
    if not now:
        return [
            f"what the judge chooses varies more than uniform slots do ({z} standard errors): it "
            "chooses the batch from here on"
        ]
    if before is None:
        return ["the judge is on trial: it chooses half of the batch until its choice pays"]
    return [
        f"what the judge chooses varies no more than uniform slots do ({z} standard errors): it is "
        "on trial again, with half of the batch"
    ]
