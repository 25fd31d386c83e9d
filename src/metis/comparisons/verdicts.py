"""One line about each variant: its cost to equal accuracy, its accuracy at equal cost, what as many
runs can show, and steps last."""

import math
from typing import NamedTuple

import numpy as np

from metis.comparisons.accuracy import at_equal_cost
from metis.comparisons.comparison import Comparison
from metis.comparisons.crossing import FEWEST_TESTS, CurvePair
from metis.comparisons.measures import AXES, MeasuredVariant
from metis.comparisons.significance import (
    LEVEL,
    BootstrapInterval,
    least_p,
    log_speed,
    observed,
    p_value,
)

STEPS = AXES[0]
MOST = 100
"""The highest ratio that is written out."""
FEW_TESTS = "too few tests in common"


class Both(NamedTuple):
    """A variant and its baseline, at the tests that both have."""

    variant: MeasuredVariant
    baseline: MeasuredVariant

    def ratio(self, axis: str) -> float:
        """The variant's cost to the highest accuracy that both reach, as a share of the
        baseline's."""
        return math.exp(log_speed(self.variant.runs(axis), self.baseline.runs(axis)))

    def counted(self, axis: str) -> bool:
        return all(each.spent[axis].any() for each in self)


def verdicts(comparison: Comparison) -> list[tuple[str, str]]:
    """Each variant, and the line about it."""
    return [(variant.name, _verdict(comparison, variant)) for variant in comparison.variants]


def _verdict(comparison: Comparison, variant: MeasuredVariant) -> str:
    baseline, lead = comparison.baseline, comparison.lead
    both = Both(variant.at_tests_of(baseline), baseline.at_tests_of(variant))
    after = [
        _at_equal_cost(variant, baseline, lead),
        runs_text(len(variant.seeds), len(baseline.seeds)),
    ]
    if len(both.variant.steps) < FEWEST_TESTS:
        few = f"has no cost to compare: {FEW_TESTS} with {baseline.name}, three are needed."
        return " ".join([few, *after])
    curves = observed(*(each.runs(lead) for each in both))
    if not curves.variant.rise[0] or not curves.baseline.rise[0]:
        return " ".join([_idle(both, curves), *after])
    cost = _cost(comparison, variant, both, curves)
    if STEPS in comparison.axes and lead != STEPS:
        after.append(f"Steps: {_share(both.ratio(STEPS))} {baseline.name}'s.")
    return " ".join(filter(None, [cost, _short_of(variant, baseline), *after]))


def _cost(comparison: Comparison, variant: MeasuredVariant, both: Both, curves: CurvePair) -> str:
    """The costs of a variant as shares of the baseline's, and whether the leading one is shown to
    differ."""
    baseline, lead = comparison.baseline, comparison.lead
    costs = [axis for axis in comparison.axes if axis != STEPS and both.counted(axis)] or [STEPS]
    owners = [f"{baseline.name}'s", *["its"] * (len(costs) - 1)]
    pairs = zip(owners, costs, strict=True)
    shares = [f"{_share(both.ratio(axis))} {owner} {axis}" for owner, axis in pairs]
    listed = " and ".join(filter(None, [", ".join(shares[:-1]), shares[-1]]))
    ends = variant.steps[-1], baseline.steps[-1]
    within = f" in {both.variant.steps[-1]} steps" if ends[0] != ends[1] else ""
    p = p_value(both.variant.runs(lead), both.baseline.runs(lead), random())
    word = f"fewer {lead}" if both.ratio(lead) < 1 else f"more {lead}"
    level, best = float(curves.common_best[0]), float(curves.baseline.best[0])
    whose = f"{baseline.name}'s" if level >= best - 1e-12 else "its own"
    return f"needs {listed} to {level:.4f}, {whose} best{within}: {shown_text(p, word, lead)}."


def _at_equal_cost(variant: MeasuredVariant, baseline: MeasuredVariant, axis: str) -> str:
    """Accuracies at the largest cost that all runs of both have come to; with an interval where
    there are runs enough to show a difference."""
    equal = at_equal_cost(variant, baseline, axis, random())
    enough = least_p(len(variant.seeds), len(baseline.seeds)) <= LEVEL
    apart = f"{equal.apart.value:+.4f}{between(equal.apart, '+.4f') if enough else ''}"
    values = f"{equal.variant:.4f} against {equal.baseline:.4f}, {apart}"
    shown = shown_text(equal.p, "higher" if equal.apart.value > 0 else "lower")
    return f"Accuracy at {equal.cost:,.0f} {axis}: {values}: {shown}."


def shown_text(p: float, finding: str, axis: str = "") -> str:
    """The finding if p is significant, else "not shown"; p may belong to one cost."""
    if p <= LEVEL:
        return f"{finding} (p = {number(p)})"
    return f"not shown (p = {number(p)}{axis and f' in {axis}'})"


def runs_text(count: int, other: int) -> str:
    """In words: the smallest p that this number of runs can give."""
    least = least_p(count, other)
    few = ", so no difference can be shown" if least > LEVEL else ""
    runs = "1 run" if count == 1 else f"{count} runs"
    return f"{runs} against {other}: p cannot go below {number(least)}{few}."


def number(p: float) -> str:
    """A p with two digits."""
    return f"{p:.2f}" if p >= 0.1 else f"{p:.2g}"


def between(interval: BootstrapInterval, form: str) -> str:
    """An interval behind its number; nothing where it is not known."""
    if not math.isfinite(interval.low):
        return ""
    high = format(interval.high, form) if math.isfinite(interval.high) else "∞"
    return f" [{interval.low:{form}}, {high}]"


def _share(ratio: float) -> str:
    return f"{ratio:.2f} of" if ratio <= MOST else f"over {MOST} times"


def _idle(both: Both, curves: CurvePair) -> str:
    """A sentence on a pair of which at least one never beat its accuracy before training."""
    variant, baseline = both
    if curves.variant.rise[0]:
        gained = f"improved from {_before(variant):.4f} to {curves.variant.best[0]:.4f}"
        return f"{gained}; {baseline.name} {_stayed(baseline)}: no cost to compare."
    idle = not curves.baseline.rise[0]
    neither = f"; neither did {baseline.name}{_fell(baseline, ', which')}" if idle else ""
    return f"{_stayed(variant)}{neither}: no cost to compare."


def _stayed(variant: MeasuredVariant) -> str:
    before = (
        f"did not stay above its accuracy before training ({_before(variant):.4f}) for two tests"
    )
    return f"{before}{_fell(variant)}"


def _fell(variant: MeasuredVariant, joined: str = " and") -> str:
    """The accuracy at the end of a variant that is worse than before training."""
    last = variant.final.mean
    return f"{joined} fell to {last:.4f}" if round(last, 4) < round(_before(variant), 4) else ""


def _before(variant: MeasuredVariant) -> float:
    return float(variant.accuracy[:, 0].mean())


def _short_of(variant: MeasuredVariant, baseline: MeasuredVariant) -> str:
    """A sentence about a variant that does not reach the baseline's best."""
    pair = observed(*(each.runs(STEPS) for each in alike(variant, baseline)))
    mine, its = pair.variant.best[0], pair.baseline.best[0]
    if mine >= its - 1e-12:
        return ""
    return f"It does not reach {baseline.name}'s best: {mine:.4f} against {its:.4f}."


def alike(
    variant: MeasuredVariant, baseline: MeasuredVariant
) -> tuple[MeasuredVariant, MeasuredVariant]:
    """Two variants, tested alike for as long as both go on."""
    return variant.tested_as(baseline), baseline.tested_as(variant)


def random() -> np.random.Generator:
    """A generator with a fixed seed: the same comparison gives the same numbers."""
    return np.random.default_rng(0)
