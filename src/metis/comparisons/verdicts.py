"""One line about each arm: its cost to equal accuracy, its accuracy at equal cost, what as many
runs can show, and steps last."""

import math
from typing import NamedTuple

import numpy as np

from metis.comparisons.accuracy import at_equal_cost
from metis.comparisons.comparison import Comparison
from metis.comparisons.crossing import FEWEST_TESTS, Pair
from metis.comparisons.measures import AXES, Measured
from metis.comparisons.significance import LEVEL, Interval, least_p, log_speed, observed, p_value

STEPS = AXES[0]
MOST = 100
"""The highest ratio that is written out."""
FEW_TESTS = "too few tests in common"


class Both(NamedTuple):
    """An arm and its baseline, at the tests that both have."""

    arm: Measured
    baseline: Measured

    def ratio(self, axis: str) -> float:
        """The arm's cost to the highest accuracy that both reach, as a share of the baseline's."""
        return math.exp(log_speed(self.arm.runs(axis), self.baseline.runs(axis)))

    def counted(self, axis: str) -> bool:
        return all(each.spent[axis].any() for each in self)


def verdicts(comparison: Comparison) -> list[tuple[str, str]]:
    """Each arm, and the line about it."""
    return [(arm.name, _verdict(comparison, arm)) for arm in comparison.arms]


def _verdict(comparison: Comparison, arm: Measured) -> str:
    baseline, lead = comparison.baseline, comparison.lead
    both = Both(arm.at_tests_of(baseline), baseline.at_tests_of(arm))
    after = [_at_equal_cost(arm, baseline, lead), runs_text(len(arm.seeds), len(baseline.seeds))]
    if len(both.arm.steps) < FEWEST_TESTS:
        few = f"has no cost to compare: {FEW_TESTS} with {baseline.name}, three are needed."
        return " ".join([few, *after])
    curves = observed(*(each.runs(lead) for each in both))
    if not curves.arm.rise[0] or not curves.baseline.rise[0]:
        return " ".join([_idle(both, curves), *after])
    cost = _cost(comparison, arm, both, curves)
    if STEPS in comparison.axes and lead != STEPS:
        after.append(f"Steps: {_share(both.ratio(STEPS))} {baseline.name}'s.")
    return " ".join(filter(None, [cost, _short_of(arm, baseline), *after]))


def _cost(comparison: Comparison, arm: Measured, both: Both, curves: Pair) -> str:
    """The costs of an arm as shares of the baseline's, and whether the leading one is shown to
    differ."""
    baseline, lead = comparison.baseline, comparison.lead
    costs = [axis for axis in comparison.axes if axis != STEPS and both.counted(axis)] or [STEPS]
    owners = [f"{baseline.name}'s", *["its"] * (len(costs) - 1)]
    pairs = zip(owners, costs, strict=True)
    shares = [f"{_share(both.ratio(axis))} {owner} {axis}" for owner, axis in pairs]
    listed = " and ".join(filter(None, [", ".join(shares[:-1]), shares[-1]]))
    ends = arm.steps[-1], baseline.steps[-1]
    within = f" in {both.arm.steps[-1]} steps" if ends[0] != ends[1] else ""
    p = p_value(both.arm.runs(lead), both.baseline.runs(lead), random())
    word = f"fewer {lead}" if both.ratio(lead) < 1 else f"more {lead}"
    level, best = float(curves.common_best[0]), float(curves.baseline.best[0])
    whose = f"{baseline.name}'s" if level >= best - 1e-12 else "its own"
    return f"needs {listed} to {level:.4f}, {whose} best{within}: {shown_text(p, word, lead)}."


def _at_equal_cost(arm: Measured, baseline: Measured, axis: str) -> str:
    """Accuracies at the largest cost that all runs of both have come to; with an interval where
    there are runs enough to show a difference."""
    equal = at_equal_cost(arm, baseline, axis, random())
    enough = least_p(len(arm.seeds), len(baseline.seeds)) <= LEVEL
    apart = f"{equal.apart.value:+.4f}{between(equal.apart, '+.4f') if enough else ''}"
    values = f"{equal.arm:.4f} against {equal.baseline:.4f}, {apart}"
    shown = shown_text(equal.p, "higher" if equal.apart.value > 0 else "lower")
    return f"Accuracy at {equal.cost:,.0f} {axis}: {values}: {shown}."


def shown_text(p: float, finding: str, axis: str = "") -> str:
    """A finding where p shows it, and else that it is not shown; p may be that of one cost."""
    if p <= LEVEL:
        return f"{finding} (p = {number(p)})"
    return f"not shown (p = {number(p)}{axis and f' in {axis}'})"


def runs_text(count: int, other: int) -> str:
    """The least p that so many runs can have, in words."""
    least = least_p(count, other)
    few = ", so no difference can be shown" if least > LEVEL else ""
    runs = "1 run" if count == 1 else f"{count} runs"
    return f"{runs} against {other}: p cannot go below {number(least)}{few}."


def number(p: float) -> str:
    """A p with two digits."""
    return f"{p:.2f}" if p >= 0.1 else f"{p:.2g}"


def between(interval: Interval, form: str) -> str:
    """An interval behind its number; nothing where it is not known."""
    if not math.isfinite(interval.low):
        return ""
    high = format(interval.high, form) if math.isfinite(interval.high) else "∞"
    return f" [{interval.low:{form}}, {high}]"


def _share(ratio: float) -> str:
    return f"{ratio:.2f} of" if ratio <= MOST else f"over {MOST} times"


def _idle(both: Both, curves: Pair) -> str:
    """A sentence about a pair of which one at least is best before training."""
    arm, baseline = both
    if curves.arm.rise[0]:
        gained = f"improved from {_before(arm):.4f} to {curves.arm.best[0]:.4f}"
        return f"{gained}; {baseline.name} {_stayed(baseline)}: no cost to compare."
    idle = not curves.baseline.rise[0]
    neither = f"; neither did {baseline.name}{_fell(baseline, ', which')}" if idle else ""
    return f"{_stayed(arm)}{neither}: no cost to compare."


def _stayed(arm: Measured) -> str:
    before = f"did not stay above its accuracy before training ({_before(arm):.4f}) for two tests"
    return f"{before}{_fell(arm)}"


def _fell(arm: Measured, joined: str = " and") -> str:
    """The accuracy at the end of an arm that is worse than before training."""
    last = arm.final.mean
    return f"{joined} fell to {last:.4f}" if round(last, 4) < round(_before(arm), 4) else ""


def _before(arm: Measured) -> float:
    return float(arm.accuracy[:, 0].mean())


def _short_of(arm: Measured, baseline: Measured) -> str:
    """A sentence about an arm that does not reach the baseline's best."""
    pair = observed(*(each.runs(STEPS) for each in alike(arm, baseline)))
    mine, its = pair.arm.best[0], pair.baseline.best[0]
    if mine >= its - 1e-12:
        return ""
    return f"It does not reach {baseline.name}'s best: {mine:.4f} against {its:.4f}."


def alike(arm: Measured, baseline: Measured) -> tuple[Measured, Measured]:
    """Two arms, tested alike for as long as both go on."""
    return arm.tested_as(baseline), baseline.tested_as(arm)


def random() -> np.random.Generator:
    """The same for every number, so that a comparison says the same twice."""
    return np.random.default_rng(0)
