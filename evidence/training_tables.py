"""Tables of judges in training: what the variants of a comparison chose, and their accuracy."""

import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metis.comparisons.accuracy import above
from metis.comparisons.measures import MeasuredVariant, find, measure, measured
from metis.comparisons.significance import BootstrapInterval, difference, least_p, p_of_difference
from metis.comparisons.verdicts import number
from metis.text import markdown_table

BASELINE = "uniform"
PROBES = ("probe", "probe-first")
READOUTS = ("readout", "readout-first", "readout-trial")
ARMS = (BASELINE, f"{BASELINE}-first", *PROBES, *READOUTS)
SEEDS = range(10)
ROWS = {"readout": "readout", BASELINE: "uniform sampling", "probe": "the probe"}
"""Variants of the table by validation, and their names there."""
PARTS = ((1, 10), (11, 20), (21, 1 << 20))
"""Steps that the judge's skill is averaged over."""
BEFORE = "before"
"""The untrained model, among the runs."""
ABOVE = "difference from uniform"
NONE = "–"

Cell = Callable[[MeasuredVariant, range], str]
Floats = NDArray[np.float64]
Scores = Mapping[str, Mapping[str, float]]
"""The mean score of each problem, by run."""


def results(folder: Path) -> str:
    """Every variant: accuracy over the run and at the end, and mean@4 on MATH-500 at the end."""
    variants = _variants(folder)
    greedy, sampled = _scores(folder)
    shared = {name: variant.at_tests_of(*variants.values()) for name, variant in variants.items()}
    last = shared[BASELINE].steps[-1]
    heads = ["variant", "steps", f"accuracy, mean of validations to step {last}"]
    heads += [ABOVE, "accuracy at the last validation, by run", ABOVE]
    rows = [[*heads, "mean@4 at the end, by run", ABOVE]]
    for name, variant in variants.items():
        apart, _ = above(shared[name], shared[BASELINE], _rng())
        change = NONE if name == BASELINE else _signed(apart)
        steps = ", ".join(str(record.steps) for record in variant.records)
        rows.append([f"`{name}`", steps, f"{shared[name].accuracy.mean():.1%}", change])
    rows.append([BEFORE, *[NONE] * 3])
    first = _runs(variants[BASELINE])
    for row, runs in zip(rows[1:], [*map(_runs, variants.values()), [BEFORE]], strict=True):
        row += [*_end(greedy, runs, first), *_end(sampled, runs, first)]
    return markdown_table(rows)


def at_end(folder: Path) -> dict[str, tuple[Floats, Floats]]:
    """Scores of the readout and of uniform sampling at the end of the budget, by run and problem:
    greedy, and means of four answers where both have them."""
    found, variants = {}, _variants(folder)
    for said, scores in zip(("greedy accuracy", "mean@4"), _scores(folder), strict=True):
        runs = [_runs(variants[name]) for name in (READOUTS[0], BASELINE)]
        one, other = ([run for run in names if run in scores] for names in runs)
        if one and other:
            mine, its = np.split(_matrix([scores[run] for run in one + other]), [len(one)])
            found[said] = mine, its
    return found


def at_once(folder: Path) -> str:
    """Accuracy at the last validation of all runs; earlier runs of a variant are among its runs."""
    step = _shared(folder)[BASELINE].steps[-1]
    runs, probe = scores_at(folder, step), PROBES[0]
    heads = ["variant", f"accuracy at step {step}, by run", "mean"]
    rows = [[*heads, ABOVE, "p", "difference from the probe", "p"]]
    for name, mine in runs.items():
        by_run = ", ".join(f"{accuracy:.1%}" for accuracy in mine.mean(axis=1))
        rows.append([f"`{name}`", by_run, f"{mine.mean():.1%}"])
        for other in BASELINE, probe:
            rows[-1] += [NONE, NONE] if name == other else _apart(mine, runs[other])
    return markdown_table(rows)


def by_test(folder: Path) -> str:
    """Accuracy at every validation after training began, by run; and the readout's difference."""
    steps = [step for step in _shared(folder)[BASELINE].steps if step]
    tests = [scores_at(folder, step) for step in steps]
    rows = [["", *(f"step {step}" for step in steps)]]
    for name in ROWS:
        by_run = (", ".join(f"{one:.1%}" for one in runs[name].mean(axis=1)) for runs in tests)
        rows.append([ROWS[name], *by_run])
    for other in BASELINE, PROBES[0]:
        apart = (_points(runs[READOUTS[0]], runs[other]) for runs in tests)
        rows.append([f"readout minus {ROWS[other]}, points", *apart])
    return markdown_table(rows)


def all_runs(folder: Path) -> dict[str, MeasuredVariant]:
    """The variants that are compared, at the validations that all have; earlier runs of a variant
    are among its own."""
    shared, merged = _shared(folder), {}
    for name in (BASELINE, PROBES[0], READOUTS[0]):
        both = [shared[each] for each in (name, f"{name}-first") if each in shared]
        runs = enumerate(record for variant in both for record in variant.records)
        merged[name] = measured(name, dict(runs)).at_tests_of(*both)
    return merged


def _points(one: Floats, other: Floats) -> str:
    """The difference of two means in points, and its p over runs."""
    p = p_of_difference(one.mean(axis=1), other.mean(axis=1), _rng())
    apart = float((one.mean(axis=0) - other.mean(axis=0)).mean())
    return f"{apart:+.1%}".replace("%", f", p = {number(p)}")


def _shared(folder: Path) -> dict[str, MeasuredVariant]:
    """The variants at the validations that all of them have."""
    variants = _variants(folder)
    return {name: variant.at_tests_of(*variants.values()) for name, variant in variants.items()}


def scores_at(folder: Path, step: int) -> dict[str, Floats]:
    """Scores at a validation, by run and problem; earlier runs of a variant are among its own."""
    return {
        name: _matrix([record.rewards[step] for record in variant.records])
        for name, variant in all_runs(folder).items()
    }


def _apart(one: Floats, other: Floats) -> list[str]:
    """The difference of two means over runs and problems, and the p of a permutation of runs."""
    p = p_of_difference(one.mean(axis=1), other.mean(axis=1), _rng())
    least = number(least_p(len(one), len(other)))
    apart = difference(one, other, _rng(), [""] * one.shape[1])
    return [_signed(apart), f"{number(p)} ({len(one)} v {len(other)}: at least {least})"]


def skill(folder: Path) -> str:
    """Informative groups and rewards of what was chosen over the steps, and the judges' skill."""
    variants = _variants(folder)
    readouts = {name: variant for name, variant in variants.items() if name in READOUTS}
    judged = {name: variant for name, variant in variants.items() if name in (*PROBES, *READOUTS)}
    spans = [range(first, last + 1) for first, last in PARTS]
    heads = [f"{steps[0]} to {steps[-1]}" for steps in spans[:-1]]
    rows = [["", "variant", *(f"steps {head}" for head in heads), f"from step {spans[-1][0]}"]]

    def add(title: str, chosen: Mapping[str, MeasuredVariant], cell: Cell) -> None:
        for name, variant in chosen.items():
            rows.append([title, f"`{name}`", *(cell(variant, steps) for steps in spans)])

    add(
        "informative groups",
        variants,
        lambda variant, at: f"{_mean(variant, 'batch/informative', at):.1%}",
    )
    add("mean reward", variants, lambda variant, at: f"{_mean(variant, 'batch/reward', at):.3f}")
    add("chosen by the judge", readouts, lambda variant, at: f"{_judged(variant, at):.0%}")
    key = "select/held_out_pearson"
    add("held-out correlation", judged, lambda variant, at: f"{_mean(variant, key, at):.2f}")
    return markdown_table(rows)


def _judged(variant: MeasuredVariant, steps: range) -> float:
    """The share of groups that the judge chose; others are explored."""
    return 1 - _mean(variant, "select/explored", steps) / _mean(variant, "batch/groups", steps)


def _variants(folder: Path) -> dict[str, MeasuredVariant]:
    """The variants there are, by name."""
    found = find(folder, ARMS, SEEDS)
    return {name: measure(name, folders) for name, folders in found.items()}


def _runs(variant: MeasuredVariant) -> list[str]:
    return [f"{variant.name}-{seed}" for seed in variant.seeds]


def _mean(variant: MeasuredVariant, key: str, steps: range) -> float:
    """The mean of a metric over steps, and then over runs."""
    means = []
    for record in variant.records:
        rows = [row for row in record.metrics if row["step"] and key in row]
        means.append([row[key] for row in rows if row["step"] in steps])
    return float(np.mean([np.mean(values) for values in means if values]))


def _scores(folder: Path) -> tuple[Scores, Scores]:
    """Greedy scores at the last validation of every run, and sampled ones; those before training
    too."""
    variants = _variants(folder)
    greedy = {
        run: record.rewards[max(record.rewards)]
        for variant in variants.values()
        for run, record in zip(_runs(variant), variant.records, strict=True)
    }
    greedy[BEFORE] = variants[BASELINE].records[0].rewards[0]
    return greedy, _sampled(folder / "math500.jsonl.gz")


def _sampled(path: Path) -> Scores:
    """The mean score of four answers to each problem, at the end of every run that has it."""
    scores: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            scores.setdefault(row["run"], {})[row["problem"]] = float(np.mean(row["scores"]))
    return scores


def _end(scores: Scores, runs: list[str], baseline: list[str]) -> tuple[str, str]:
    """The mean of each run that has scores, and how far they are above the baseline's, over runs
    and problems."""
    one, other = ([run for run in names if run in scores] for names in (runs, baseline))
    if not one:
        return NONE, NONE
    by_run = ", ".join(f"{np.mean(list(scores[run].values())):.1%}" for run in one)
    if not other or one == other:
        return by_run, NONE
    mine, its = np.split(_matrix([scores[run] for run in one + other]), [len(one)])
    return by_run, _signed(difference(mine, its, _rng(), [""] * mine.shape[1]))


def _matrix(scores: Sequence[Mapping[str, float]]) -> Floats:
    """Scores by run and problem, of the problems that all runs have."""
    problems = sorted(set.intersection(*(set(run) for run in scores)))
    return np.array([[run[problem] for problem in problems] for run in scores])


def _signed(change: BootstrapInterval) -> str:
    known = not math.isnan(change.low)
    return f"{change.value:+.1%}" + (f" [{change.low:+.1%}, {change.high:+.1%}]" if known else "")


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
