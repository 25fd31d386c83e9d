"""The judge's trial: it selects half of the batch, half is uniform, until its selection is better.

Skill is the realised lift: the mean variance of the judge's selection minus that of the uniform
slots of the same step, summed over the last steps and divided by its standard error under random
assignment within steps (a stratified permutation test). Drift over steps cancels out, and steps
without any variance do not count.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from metis.core import Group
from metis.core.state import Stateful
from metis.curricula.judges import Judge

OPENS, CLOSES = 2.33, 0.0
"""z above which a trial ends (1 % false positives without skill), and below which it restarts."""

NEEDS_UNIFORM = (
    "a trial compares with uniform slots: set curriculum.explore above 0, or curriculum.trial=0"
)
"""The remedy for a trial without uniform slots."""


class StepComparison(NamedTuple):
    """One step: mean of selected minus uniform slots, and the variance of all outcomes (ddof 1)."""

    step: int
    difference: float
    weight: float
    """n m / (n + m): the inverse variance of the difference, for unit variance of outcomes."""
    variance: float


class Lift(NamedTuple):
    """The mean difference over the steps, and its z-score."""

    mean: float
    z: float


@dataclass
class Trial(Stateful):
    """The trial of a judge: starts and ends by the realised lift of the last steps.

    steps  steps whose lift counts; 0 is no trial, and measures the lift of 16
    """

    steps: int = Judge.trial

    on: bool | None = field(init=False, default=None)
    """True during a trial; None before the first step."""
    comparisons: list[StepComparison] = field(init=False, default_factory=list)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.comparisons = [StepComparison(*each) for each in self.comparisons]

    def decide(self, step: int) -> list[str]:
        """Start or end the trial before a step; returns notices."""
        first = step - (self.steps or Judge.trial)
        self.comparisons = [each for each in self.comparisons if each.step >= first]
        lift, before = realised_lift(self.comparisons), self.on
        self.on = self.steps > 0 and on_trial(before is not False, lift)
        return trial_notice(before, self.on, lift) if self.steps else []

    def uniform_part(self, explore: float) -> float:
        """The uniform part of a batch: `explore`, during a trial at least half."""
        return max(explore, 0.5) if self.on else explore

    def add(
        self, step: int, groups: Sequence[Group], explored: Collection[str]
    ) -> dict[str, float]:
        """Compare the two sides of a step; returns metrics. `explored` had the uniform slots."""
        realised = [(group.prompt.id in explored, group.variance) for group in groups]
        chosen = [v for uniform, v in realised if v is not None and not uniform]
        slots = [v for uniform, v in realised if v is not None and uniform]
        self.comparisons += step_comparison(step, chosen, slots)
        metrics = {"select/trial": float(bool(self.on))}
        if (lift := realised_lift(self.comparisons)) is not None:
            metrics |= {"judge/realised_lift": lift.mean, "judge/realised_lift_z": lift.z}
        return metrics


def step_comparison(
    step: int, chosen: Sequence[float], uniform: Sequence[float]
) -> list[StepComparison]:
    """The comparison of one step; none if a side is empty or all outcomes are equal."""
    outcomes = np.array([*chosen, *uniform])
    if not (chosen and uniform) or np.ptp(outcomes) == 0:
        return []
    difference = float(np.mean(chosen) - np.mean(uniform))
    weight = len(chosen) * len(uniform) / len(outcomes)
    return [StepComparison(step, difference, weight, float(outcomes.var(ddof=1)))]


def realised_lift(comparisons: Sequence[StepComparison]) -> Lift | None:
    """The precision-weighted lift over steps; None without any."""
    if not comparisons:
        return None
    gain = math.fsum(each.weight * each.difference for each in comparisons)
    error = math.sqrt(math.fsum(each.weight * each.variance for each in comparisons))
    return Lift(gain / math.fsum(each.weight for each in comparisons), gain / error)


def on_trial(before: bool, lift: Lift | None) -> bool:
    """True if the judge stays, or is again, on trial."""
    if lift is None:
        return before
    return lift.z <= OPENS if before else lift.z < CLOSES


def trial_notice(before: bool | None, now: bool, lift: Lift | None) -> list[str]:
    """A notice when a trial starts or ends."""
    if now == before:
        return []
    z = f"{lift.z:.1f}" if lift else "no"
    if not now:
        return [
            f"the judge's selection has more variance than uniform slots ({z} standard errors): it "
            "selects the batch from here on"
        ]
    if before is None:
        return [
            "the judge is on trial: it selects half of the batch, until its selection has more "
            "variance than uniform slots"
        ]
    return [
        f"the judge's selection has no more variance than uniform slots ({z} standard errors): it "
        "is on trial again, with half of the batch"
    ]
