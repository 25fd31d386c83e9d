"""`comparison.md`: what each arm reached, what it cost, and which differences are shown."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from metis.comparisons.comparison import Comparison
from metis.comparisons.crossing import FEWEST_TESTS, MANY, Pair
from metis.comparisons.inference import (
    LEVEL,
    Interval,
    cost_to_best,
    cost_to_own_best,
    difference,
    least_p,
    log_speed,
    observed,
    p_value,
)
from metis.comparisons.measures import Measured, average, seconds_a_step, tokens_a_second, waste
from metis.run.recorded import Recorded
from metis.run.statistics import Estimate, mean
from metis.text import markdown_table, plain

MISSING = "–"
CLEAR = 0.8
"""The share of the leading cost up to which others are named that save less than half as much."""
ALONE = "One variant, nothing to compare with."
FEW_TESTS = "too few tests in common"
RAW, SMOOTHED = "raw", "smoothed"
CROSSED, RUNS = "runs and problems", "runs"


class Section(NamedTuple):
    """A table under its title; the first row names the columns."""

    title: str
    rows: list[list[str]]


def markdown(comparison: Comparison) -> str:
    """The whole comparison; the same runs give the same text."""
    lines = [f"- **{name}** {said}" for name, said in verdicts(comparison)]
    parts = ["# Comparison\n", "\n".join(lines or [ALONE]) + "\n"]
    for section in sections(comparison):
        parts += [f"## {section.title}\n", markdown_table(section.rows)]
    parts += [f"{note}\n" for note in notes(comparison)]
    if comparison.missing:
        parts += ["## Missing\n", *(f"- {plain(line)}" for line in comparison.missing), ""]
    return "\n".join(parts)


def sections(comparison: Comparison) -> list[Section]:
    """The tables of a comparison that have any row."""
    reach = f"Cost to reach {comparison.baseline.name}'s best, as a share of its own"
    tables = [
        Section("Accuracy", _accuracies(comparison)),
        Section(reach, _costs(comparison)),
        Section("Accuracy at equal cost", _equal_costs(comparison)),
        Section("Where the effort went", _facts(comparison)),
    ]
    return [table for table in tables if len(table.rows) > 1]


def verdicts(comparison: Comparison) -> list[tuple[str, str]]:
    """Each arm, and one sentence about it."""
    return [(arm.name, _verdict(comparison, arm)) for arm in comparison.arms]


def _verdict(comparison: Comparison, arm: Measured) -> str:
    """A sentence about an arm: faster, slower, or not shown to be; and costs that disagree."""
    baseline, lead = comparison.baseline, comparison.lead
    pair = arm.at_tests_of(baseline), baseline.at_tests_of(arm)
    if len(pair[0].steps) < FEWEST_TESTS:
        return f"has no cost to compare: {FEW_TESTS} with {baseline.name}, three are needed."
    ones, others = (each.runs(lead) for each in pair)
    curves = observed(ones, others)
    if not curves.arm.rise[0] or not curves.baseline.rise[0]:
        return _idle(*pair, curves)
    ratio = math.exp(log_speed(ones, others))
    share = f"{ratio:.2f} of" if ratio <= 100 else "over 100 times"
    about = f"needs {share} {baseline.name}'s {lead} to the highest accuracy that both reach"
    if arm.steps[-1] != baseline.steps[-1]:
        about += f" in {pair[0].steps[-1]} steps"
    p, counts = p_value(ones, others, _rng()), (len(arm.seeds), len(baseline.seeds))
    word = "faster" if ratio < 1 else "slower"
    shown = word if p <= LEVEL else "a difference is not shown"
    rest = f"{_disagreeing(comparison, pair, ratio)}{_short_of(arm, baseline)}"
    return f"{about}: {shown} ({p_text(p, *counts)}).{rest}"


def p_text(p: float, count: int, other: int) -> str:
    """A p beside the runs that it is of, and the least that so many can give."""
    least = least_p(count, other)
    few = ": too few to show any difference" if least > LEVEL else ""
    return f"p = {number(p)}; {count} v {other} runs cannot go below {number(least)}{few}"


def number(p: float) -> str:
    """A p with two digits."""
    return f"{p:.2f}" if p >= 0.1 else f"{p:.2g}"


def _idle(arm: Measured, baseline: Measured, curves: Pair) -> str:
    """A sentence about a pair of which one at least is best before training."""
    if curves.arm.rise[0]:
        gained = f"improved from {_before(arm):.4f} to {curves.arm.best[0]:.4f}"
        return f"{gained}; {baseline.name} {_stayed(baseline)}: no cost to compare."
    idle = not curves.baseline.rise[0]
    both = f"; neither did {baseline.name}{_fell(baseline, ', which')}" if idle else ""
    return f"{_stayed(arm)}{both}: no cost to compare."


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
    pair = observed(*(each.runs("steps") for each in _alike(arm, baseline)))
    mine, its = pair.arm.best[0], pair.baseline.best[0]
    if mine >= its - 1e-12:
        return ""
    return f" It does not reach {baseline.name}'s best: {mine:.4f} against {its:.4f}."


def _alike(arm: Measured, baseline: Measured) -> tuple[Measured, Measured]:
    return arm.tested_as(baseline), baseline.tested_as(arm)


def _disagreeing(comparison: Comparison, pair: tuple[Measured, Measured], lead: float) -> str:
    """The costs to the same accuracy that speak less for the arm than the leading one does, or
    against it."""
    baseline, weaker, contrary = comparison.baseline, [], []
    for axis in comparison.axes:
        if axis == comparison.lead or not all(each.spent[axis].any() for each in pair):
            continue
        ratio = math.exp(log_speed(*(each.runs(axis) for each in pair)))
        cost = f"{ratio:.2f} of {baseline.name}'s {axis}"
        if (round(ratio, 2) - 1) * (lead - 1) < 0:
            contrary.append(cost)
        elif lead <= CLEAR and math.log(ratio) > math.log(lead) / 2:
            weaker.append(cost)
    word = "more" if lead < 1 else "less"
    parts = [", ".join(weaker), f"{word}: {', '.join(contrary)}" if contrary else ""]
    spent = ", and ".join(filter(None, parts))
    return f" At that accuracy it has spent {spent}." if spent else ""


def _accuracies(comparison: Comparison) -> list[list[str]]:
    heads = [
        "variant",
        "seeds",
        "runs",
        "before",
        "best kept",
        "at step",
        "last",
        "mean over the run",
    ]
    rows = [[*heads, "difference", "resampled"]]
    for arm in comparison.everyone:
        step, best = comparison.tested_alike(arm).best
        rows.append(
            [
                arm.name,
                ", ".join(map(str, arm.seeds)),
                str(len(arm.seeds)),
                _estimate(mean(arm.accuracy[:, 0].tolist())),
                _estimate(best),
                f"{step:,}",
                _estimate(arm.final),
                *_whole_run(arm, comparison.baseline),
            ]
        )
    return rows


def _whole_run(arm: Measured, baseline: Measured) -> tuple[str, str, str]:
    """Mean accuracy over the tests that both arms have, its difference, and what was resampled."""
    pair = arm.at_tests_of(baseline), baseline.at_tests_of(arm)
    if len(pair[0].steps) < 2:
        return MISSING, MISSING, MISSING
    whole = _estimate(mean(pair[0].accuracy.mean(axis=1).tolist()))
    if arm is baseline:
        return whole, MISSING, MISSING
    apart, resampled = above(*pair, _rng())
    return whole, f"{apart.value:+.4f}{_between(apart, '+.4f')}", resampled


def _costs(comparison: Comparison) -> list[list[str]]:
    header = ["variant", "curves", *comparison.axes]
    header += ["seconds to its own best (ΔT)"] if comparison.timed else []
    rows = [header]
    for arm in comparison.arms:
        if len(arm.at_tests_of(comparison.baseline).steps) < FEWEST_TESTS:
            rows.append([arm.name, *(f"{MISSING} ({FEW_TESTS})" for _ in header[1:])])
            continue
        pair = _alike(arm, comparison.baseline)
        smooth = observed(*(each.runs("steps") for each in pair)).smooth[0]
        row = [arm.name, SMOOTHED if smooth else RAW]
        for axis in comparison.axes:
            row.append(_ratio(cost_to_best(pair[0].runs(axis), pair[1].runs(axis), _rng())))
        if comparison.timed:
            ones, others = (each.runs("seconds") for each in pair)
            row.append(_change(cost_to_own_best(ones, others, _rng())))
        rows.append(row)
    return rows


def _equal_costs(comparison: Comparison) -> list[list[str]]:
    limits = {
        axis: min(float(arm.spent[axis][:, -1].min()) for arm in comparison.everyone)
        for axis in comparison.axes
    }
    rows = [["variant", *(f"{axis} = {limits[axis]:,.0f}" for axis in limits)]]
    for arm in comparison.everyone:
        rows.append([arm.name, *(_estimate(arm.at(axis, limits[axis])) for axis in limits)])
    return rows


FACTS: dict[str, tuple[Callable[[Recorded], float | None], str]] = {
    "informative": (lambda record: record.informative, ".1%"),
    "mean |A|": (average("batch/advantage"), ".3f"),
    "waste": (waste, ".1%"),
    "judgments failed": (average("judge/failure_rate"), ".1%"),
    "judge ρ": (average("judge/spearman"), ".2f"),
}
"""Facts of a run that need no clock."""


def _facts(comparison: Comparison) -> list[list[str]]:
    header = ["variant", *FACTS]
    header += ["time of a step", "tokens a second", "time judging"] if comparison.timed else []
    rows = [header]
    for arm in comparison.everyone:
        row = [arm.name]
        for of, form in FACTS.values():
            fact = arm.fact(of)
            row.append(MISSING if fact is None else format(fact.mean, form))
        if comparison.timed:
            row += [
                _against(comparison, arm, seconds_a_step),
                _against(comparison, arm, tokens_a_second),
                _share(arm.fact(lambda record: record.judge_share)),
            ]
        rows.append(row)
    return rows


def _against(comparison: Comparison, arm: Measured, of: Callable[[Recorded], float | None]) -> str:
    """A number as a ratio to the baseline's."""
    mine, theirs = arm.fact(of), comparison.baseline.fact(of)
    return MISSING if mine is None or theirs is None else f"{mine.mean / theirs.mean:.2f}"


def _share(estimate: Estimate | None) -> str:
    return MISSING if estimate is None else f"{estimate.mean:.1%}"


def notes(comparison: Comparison) -> Iterator[str]:
    """Sentences on how the numbers were come by."""
    yield (
        "Accuracies are means over runs with their standard errors; the best is the highest that "
        "the next test keeps. A level is reached at the first test whose next test keeps it, on "
        "raw curves averaged over runs and interpolated; curves that have "
        f"{MANY} tests or more before it are smoothed over three tests instead. Intervals are 95% "
        "bootstrap intervals over runs, unpaired, or over runs and problems; too narrow where runs "
        "are few. p is that of a permutation test over runs."
    )
    yield (
        "Total tokens are all that pass through a network, prompt and generated; waste is the "
        "share of generated tokens in groups without variance; ρ is the rank correlation of "
        "predicted and realised variance. Times are ratios to the baseline's."
    )
    if comparison.instead:
        yield f"{comparison.instead}."
    if not comparison.timed:
        yield f"{comparison.untimed}: seconds are not compared."


def _estimate(estimate: Estimate) -> str:
    error = "" if estimate.error is None else f" ± {estimate.error:.4f}"
    return f"{estimate.mean:.4f}{error}"


def _ratio(ratio: Interval) -> str:
    if math.isnan(ratio.value):
        return MISSING
    value = f"{ratio.value:.3f}" if math.isfinite(ratio.value) else "not reached"
    return f"{value}{_between(ratio, '.3f')}"


def _between(interval: Interval, form: str) -> str:
    if not math.isfinite(interval.low):
        return ""
    high = format(interval.high, form) if math.isfinite(interval.high) else "∞"
    return f" [{interval.low:{form}}, {high}]"


def _change(ratio: Interval) -> str:
    """A ratio of times as the paper writes it: the change in per cent."""
    if math.isnan(ratio.value):
        return MISSING
    change = Interval(*(part - 1 for part in ratio))
    return f"{change.value:+.1%}{_between(change, '+.1%')}"


def _rng() -> np.random.Generator:
    """The same for every number, so that a table says the same twice."""
    return np.random.default_rng(0)


def above(arm: Measured, baseline: Measured, rng: np.random.Generator) -> tuple[Interval, str]:
    """The difference of accuracies averaged over the tests, which both arms have alike.

    Runs and problems are resampled together where all runs of both arms are tested on the same
    problems. Where each run has its own, they are resampled with it.
    """
    mine, its = arm.problems, baseline.problems
    if mine is not None and its is not None and mine.names == its.names:
        one, other = (each.rewards.mean(axis=1) for each in (mine, its))
        return difference(one, other, rng, mine.sets), CROSSED
    one, other = (each.accuracy.mean(axis=1, keepdims=True) for each in (arm, baseline))
    return difference(one, other, rng), RUNS
