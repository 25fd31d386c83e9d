"""`comparison.md`: what each variant reached, what it cost, and which differences are shown."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from metis.comparisons import scores
from metis.comparisons.accuracy import above
from metis.comparisons.comparison import Comparison
from metis.comparisons.crossing import FEWEST_TESTS, MANY
from metis.comparisons.measures import (
    MeasuredVariant,
    average,
    seconds_a_step,
    tokens_a_second,
    waste,
)
from metis.comparisons.significance import (
    BootstrapInterval,
    cost_to_best,
    cost_to_own_best,
    observed,
)
from metis.comparisons.verdicts import FEW_TESTS, alike, between, random, verdicts
from metis.report.tables import BY_BENCHMARK
from metis.run.recorded import Recorded
from metis.run.statistics import Estimate, mean
from metis.text import markdown_table, plain

MISSING = "–"
ALONE = "One variant, nothing to compare with."
RAW, SMOOTHED = "raw", "smoothed"


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
    for title, runs in (("Not compared", comparison.apart), ("Missing", comparison.missing)):
        if runs:
            parts += [f"## {title}\n", *(f"- {plain(line)}" for line in runs), ""]
    return "\n".join(parts)


def sections(comparison: Comparison) -> list[Section]:
    """The non-empty tables of a comparison."""
    reach = f"Cost to reach {comparison.baseline.name}'s best, as a share of its own"
    tables = [
        Section("Accuracy", _accuracies(comparison)),
        Section(reach, _costs(comparison)),
        Section("Accuracy at equal cost", _equal_costs(comparison)),
        Section(BY_BENCHMARK, scores.validated(comparison)),
        Section(_after_training(comparison), scores.evaluated(comparison)),
        Section("Where the effort went", _facts(comparison)),
    ]
    return [table for table in tables if len(table.rows) > 1]


def _after_training(comparison: Comparison) -> str:
    """The title of the table of evaluations, which all have one metric."""
    metrics = dict.fromkeys(each.metric for each in comparison.evaluations.values())
    return f"{', '.join(metrics)} after training, in percent"


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
    for variant in comparison.everyone:
        step, best = comparison.tested_alike(variant).best
        rows.append(
            [
                variant.name,
                ", ".join(map(str, variant.seeds)),
                str(len(variant.seeds)),
                _estimate(mean(variant.accuracy[:, 0].tolist())),
                _estimate(best),
                f"{step:,}",
                _estimate(variant.final),
                *_whole_run(variant, comparison.baseline),
            ]
        )
    return rows


def _whole_run(variant: MeasuredVariant, baseline: MeasuredVariant) -> tuple[str, str, str]:
    """Mean accuracy over the tests that both variants have, its difference, and what was
    resampled."""
    pair = variant.at_tests_of(baseline), baseline.at_tests_of(variant)
    if len(pair[0].steps) < 2:
        return MISSING, MISSING, MISSING
    whole = _estimate(mean(pair[0].accuracy.mean(axis=1).tolist()))
    if variant is baseline:
        return whole, MISSING, MISSING
    apart, resampled = above(*pair, random())
    return whole, f"{apart.value:+.4f}{between(apart, '+.4f')}", resampled


def _costs(comparison: Comparison) -> list[list[str]]:
    header = ["variant", "curves", *comparison.axes]
    header += ["seconds to its own best (ΔT)"] if comparison.timed else []
    rows = [header]
    for variant in comparison.variants:
        if len(variant.at_tests_of(comparison.baseline).steps) < FEWEST_TESTS:
            rows.append([variant.name, *(f"{MISSING} ({FEW_TESTS})" for _ in header[1:])])
            continue
        pair = alike(variant, comparison.baseline)
        smooth = observed(*(each.runs("steps") for each in pair)).smooth[0]
        row = [variant.name, SMOOTHED if smooth else RAW]
        for axis in comparison.axes:
            row.append(_ratio(cost_to_best(pair[0].runs(axis), pair[1].runs(axis), random())))
        if comparison.timed:
            ones, others = (each.runs("seconds") for each in pair)
            row.append(_change(cost_to_own_best(ones, others, random())))
        rows.append(row)
    return rows


def _equal_costs(comparison: Comparison) -> list[list[str]]:
    limits = {
        axis: min(float(variant.spent[axis][:, -1].min()) for variant in comparison.everyone)
        for axis in comparison.axes
    }
    rows = [["variant", *(f"{axis} = {limits[axis]:,.0f}" for axis in limits)]]
    for variant in comparison.everyone:
        rows.append([variant.name, *(_estimate(variant.at(axis, limits[axis])) for axis in limits)])
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
    for variant in comparison.everyone:
        row = [variant.name]
        for of, form in FACTS.values():
            fact = variant.fact(of)
            row.append(MISSING if fact is None else format(fact.mean, form))
        if comparison.timed:
            row += [
                _against(comparison, variant, seconds_a_step),
                _against(comparison, variant, tokens_a_second),
                _share(variant.fact(lambda record: record.judge_share)),
            ]
        rows.append(row)
    return rows


def _against(
    comparison: Comparison, variant: MeasuredVariant, of: Callable[[Recorded], float | None]
) -> str:
    """A number as a ratio to the baseline's."""
    mine, theirs = variant.fact(of), comparison.baseline.fact(of)
    return MISSING if mine is None or theirs is None else f"{mine.mean / theirs.mean:.2f}"


def _share(estimate: Estimate | None) -> str:
    return MISSING if estimate is None else f"{estimate.mean:.1%}"


def notes(comparison: Comparison) -> Iterator[str]:
    """Notes on how the numbers were computed."""
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
    if comparison.rollouts_a_step:
        yield (
            f"Every step has {comparison.rollouts_a_step:,.0f} rollouts in every variant: shares "
            "of steps are those of rollouts."
        )
    if comparison.instead:
        yield f"{comparison.instead}."
    if not comparison.timed:
        yield f"{comparison.untimed}: seconds are not compared."


def _estimate(estimate: Estimate) -> str:
    error = "" if estimate.error is None else f" ± {estimate.error:.4f}"
    return f"{estimate.mean:.4f}{error}"


def _ratio(ratio: BootstrapInterval) -> str:
    if math.isnan(ratio.value):
        return MISSING
    value = f"{ratio.value:.3f}" if math.isfinite(ratio.value) else "not reached"
    return f"{value}{between(ratio, '.3f')}"


def _change(ratio: BootstrapInterval) -> str:
    """A ratio of times as the paper writes it: the change in per cent."""
    if math.isnan(ratio.value):
        return MISSING
    change = BootstrapInterval(*(part - 1 for part in ratio))
    return f"{change.value:+.1%}{between(change, '+.1%')}"
