"""`comparison.md`: what each arm reached, what it cost, and which differences are beyond noise."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from metis.compare.comparison import Comparison
from metis.compare.inference import (
    FEWEST_SEEDS,
    FEWEST_TESTS,
    LEVEL,
    MOST_SEEDS,
    Ratio,
    cost_to_best,
    cost_to_own_best,
    improves,
    least_p,
    log_speed,
    p_value,
    seeds_to_settle,
)
from metis.compare.measures import Measured, average, seconds_a_step, tokens_a_second, waste
from metis.markdown import markdown_table, plain
from metis.report.curves import Recorded
from metis.run.statistics import Estimate, mean

MISSING = "–"
CLEAR = 0.8
"""The share of steps up to which costs are named that save less than half as much."""
ALONE = "One arm, nothing to compare with."
FEW_TESTS = "too few tests in common"
SMOOTHED = "best (smoothed)"


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
    """A sentence about an arm: faster, slower, or not to be told apart; and costs that disagree."""
    baseline = comparison.baseline
    pair = arm.at_tests_of(baseline), baseline.at_tests_of(arm)
    if len(pair[0].steps) < FEWEST_TESTS:
        return f"has no cost to compare: {FEW_TESTS} with {baseline.name}, three are needed."
    ones, others = (each.runs("steps") for each in pair)
    if not improves(ones) or not improves(others):
        return _idle(*pair)
    p, ratio = p_value(ones, others, _rng()), math.exp(log_speed(ones, others))
    share = f"{ratio:.2f} of" if ratio <= 100 else "over 100 times"
    about = f"needs {share} {baseline.name}'s steps to the highest accuracy that both reach"
    if arm.steps[-1] != baseline.steps[-1]:
        about += f" in {pair[0].steps[-1]} steps"
    word = "faster" if ratio < 1 else "slower"
    rest = f"{_against_steps(comparison, arm, ratio)}{_short_of(arm, baseline)}"
    if min(len(arm.seeds), len(baseline.seeds)) < 2:
        unknown = f"one seed cannot tell that from noise; {FEWEST_SEEDS} of each can"
        return f"{about}: {unknown}.{rest}"
    if p <= LEVEL:
        return f"{about}: {word} beyond noise (p = {p:.3f}).{rest}"
    settle = _settle(seeds_to_settle(ones, others, _rng())) if ratio != 1 else ""
    if p <= least_p(ones, others) + 1e-9:
        clear = f"{word}, as clearly as so few seeds can show (p = {p:.2f})"
        return f"{about}: {clear}{settle}.{rest}"
    return f"{about}: within noise (p = {p:.2f}){settle}.{rest}"


def _settle(seeds: int | None) -> str:
    """A clause about the seeds that would probably tell a difference from noise."""
    if seeds is None:
        return f"; {MOST_SEEDS} seeds of each would probably not show it"
    return f"; about {seeds} seeds of each would probably show it, if it is as large as it looks"


def _idle(arm: Measured, baseline: Measured) -> str:
    """A sentence about a pair of which one at least is best before training."""
    mine, theirs = (improves(each.runs("steps")) for each in (arm, baseline))
    if mine:
        gained = f"improved from {_before(arm):.4f} to {arm.best[1].mean:.4f}"
        return f"{gained}; {baseline.name} {_stayed(baseline)}: no cost to compare."
    both = "" if theirs else f"; neither did {baseline.name}{_fell(baseline, ', which')}"
    return f"{_stayed(arm)}{both}: no cost to compare."


def _stayed(arm: Measured) -> str:
    before = f"did not improve on its accuracy before training ({_before(arm):.4f})"
    return f"{before}{_fell(arm)}"


def _fell(arm: Measured, joined: str = " and") -> str:
    """The accuracy at the end of an arm that is worse than before training."""
    last = arm.final.mean
    return f"{joined} fell to {last:.4f}" if round(last, 4) < round(_before(arm), 4) else ""


def _before(arm: Measured) -> float:
    return float(arm.accuracy[:, 0].mean())


def _short_of(arm: Measured, baseline: Measured) -> str:
    """A sentence about an arm that does not reach the baseline's best."""
    mine, theirs = (
        one.tested_as(other).best[1].mean for one, other in ((arm, baseline), (baseline, arm))
    )
    if mine >= theirs - 1e-12:
        return ""
    return f" It does not reach {baseline.name}'s best: {mine:.4f} against {theirs:.4f}."


def _against_steps(comparison: Comparison, arm: Measured, steps: float) -> str:
    """The costs to the same accuracy that speak less for the arm than steps do, or against it."""
    baseline = comparison.baseline
    pair = arm.at_tests_of(baseline), baseline.at_tests_of(arm)
    counted = [
        axis
        for axis in comparison.axes
        if axis != "steps" and all(each.spent[axis].any() for each in pair)
    ]
    ratios = {axis: math.exp(log_speed(*(each.runs(axis) for each in pair))) for axis in counted}
    weaker, contrary = [], []
    for axis, ratio in ratios.items():
        cost = f"{ratio:.2f} of {baseline.name}'s {axis}"
        if (round(ratio, 2) - 1) * (steps - 1) < 0:
            contrary.append(cost)
        elif steps <= CLEAR and math.log(ratio) > math.log(steps) / 2:
            weaker.append(cost)
    word = "more" if steps < 1 else "less"
    parts = [", ".join(weaker), f"{word}: {', '.join(contrary)}" if contrary else ""]
    spent = ", and ".join(filter(None, parts))
    return f" At that accuracy it has spent {spent}." if spent else ""


def _accuracies(comparison: Comparison) -> list[list[str]]:
    rows = [
        ["arm", "seeds", "before", SMOOTHED, "at step", "last", "mean over the run", "difference"]
    ]
    for arm in comparison.everyone:
        step, best = comparison.tested_alike(arm).best
        rows.append(
            [
                arm.name,
                ", ".join(map(str, arm.seeds)),
                _estimate(mean(arm.accuracy[:, 0].tolist())),
                _estimate(best),
                f"{step:,}",
                _estimate(arm.final),
                *_whole_run(arm, comparison.baseline),
            ]
        )
    return rows


def _whole_run(arm: Measured, baseline: Measured) -> tuple[str, str]:
    """Mean accuracy over the tests that both arms have, and its difference, paired by seed."""
    pair = arm.at_tests_of(baseline), baseline.at_tests_of(arm)
    if len(pair[0].steps) < 2:
        return MISSING, MISSING
    mine, theirs = (
        dict(zip(each.seeds, each.accuracy.mean(axis=1).tolist(), strict=True)) for each in pair
    )
    whole = _estimate(mean(list(mine.values())))
    both = [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
    if arm is baseline or not both:
        return whole, MISSING
    return whole, _estimate(mean(both), signed=True)


def _costs(comparison: Comparison) -> list[list[str]]:
    header = ["arm", *comparison.axes]
    header += ["seconds to its own best (ΔT)"] if comparison.timed else []
    rows = [header]
    for arm in comparison.arms:
        if len(arm.at_tests_of(comparison.baseline).steps) < FEWEST_TESTS:
            rows.append([arm.name, *(f"{MISSING} ({FEW_TESTS})" for _ in header[1:])])
            continue
        pair = arm.tested_as(comparison.baseline), comparison.baseline.tested_as(arm)
        row = [arm.name]
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
    rows = [["arm", *(f"{axis} = {limits[axis]:,.0f}" for axis in limits)]]
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
    header = ["arm", *FACTS]
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
        "Accuracies are means over seeds with their standard errors; curves, and the best of "
        "them, are averaged over seeds and, after the first test, over three neighbouring tests, "
        "and interpolated. Intervals are 95% bootstrap "
        "intervals over seeds, too narrow where there are few. p is that of a permutation test "
        "over seeds. Processed tokens are all that pass through a network; waste is the share of "
        "generated tokens in groups without variance; ρ is the rank correlation of predicted and "
        "realised variance. Times are ratios to the baseline's."
    )
    if comparison.instead:
        yield f"{comparison.instead}."
    if not comparison.timed:
        yield f"{comparison.untimed}: seconds are not compared."


def _estimate(estimate: Estimate, signed: bool = False) -> str:
    value = f"{estimate.mean:+.4f}" if signed else f"{estimate.mean:.4f}"
    return value if estimate.error is None else f"{value} ± {estimate.error:.4f}"


def _ratio(ratio: Ratio) -> str:
    if math.isnan(ratio.value):
        return MISSING
    if not math.isfinite(ratio.value):
        return f"not reached{_between(ratio)}"
    return f"{ratio.value:.3f}{_between(ratio)}"


def _between(ratio: Ratio) -> str:
    if math.isnan(ratio.low) or not math.isfinite(ratio.low):
        return ""
    high = f"{ratio.high:.3f}" if math.isfinite(ratio.high) else "∞"
    return f" [{ratio.low:.3f}, {high}]"


def _change(ratio: Ratio) -> str:
    """A ratio of times as the paper writes it: the change in per cent."""
    if math.isnan(ratio.value):
        return MISSING
    text = f"{ratio.value - 1:+.1%}"
    if not math.isfinite(ratio.low):
        return text
    return f"{text} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}]"


def _rng() -> np.random.Generator:
    """The same for every number, so that a table says the same twice."""
    return np.random.default_rng(0)
