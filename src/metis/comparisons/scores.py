"""Tables of a comparison with a column for each benchmark: of the best validations, and of the
evaluations after training."""

from collections.abc import Mapping, Sequence

import numpy as np

from metis.comparisons.benchmarks import Evaluated
from metis.comparisons.comparison import Comparison
from metis.comparisons.significance import difference, p_of_difference
from metis.comparisons.verdicts import between, number, random
from metis.report.tables import MISSING, percent
from metis.run.statistics import mean
from metis.tasks.benchmarks.catalogue import title


def validated(comparison: Comparison) -> list[list[str]]:
    """Every variant at its best validation, by benchmark; nothing of runs that were not validated
    on several."""
    best = {
        variant.name: (step, [run.by_benchmark(step) for run in variant.records])
        for variant in comparison.everyone
        for step in [comparison.tested_alike(variant).best[0]]
    }
    names = dict.fromkeys(name for _, runs in best.values() for run in runs for name in run)
    if len(names) < 2:
        return []
    rows = [["variant", "at step", *map(title, names), "Avg."]]
    for variant, (step, runs) in best.items():
        parts = [[run[name] for run in runs if name in run] for name in names]
        scores = [percent(mean(values)) if values else MISSING for values in parts]
        average = percent(mean([float(np.mean(list(run.values()))) for run in runs if run]))
        rows.append([variant, f"{step:,}", *scores, average])
    return rows


def evaluated(comparison: Comparison) -> list[list[str]]:
    """Every variant after training, by benchmark, and the difference of its average from the
    baseline's; nothing where no run was evaluated."""
    groups = {
        variant.name: [
            comparison.evaluations[run]
            for run in (f"{variant.name}-{seed}" for seed in variant.seeds)
            if run in comparison.evaluations
        ]
        for variant in comparison.everyone
    }
    titles: Mapping[str, str] = {
        name: called
        for runs in groups.values()
        for run in runs
        for name, called in run.titles.items()
    }
    if not titles:
        return []
    several = len(titles) > 1
    header = ["variant", "runs", *titles.values(), *(["Avg."] if several else [])]
    rows = [[*header, "difference", "p"]]
    baseline = groups[comparison.baseline.name]
    for variant, runs in groups.items():
        if not runs:
            continue
        parts = [[run.of(name) for run in runs if name in run.titles] for name in titles]
        parts += [[run.average for run in runs]] if several else []
        scores = [percent(mean(values)) if values else MISSING for values in parts]
        apart = (MISSING, MISSING) if runs is baseline else _difference(runs, baseline)
        rows.append([variant, str(len(runs)), *scores, *apart])
    return rows


def _difference(runs: Sequence[Evaluated], baseline: Sequence[Evaluated]) -> tuple[str, str]:
    """The difference of the averages in percentage points, resampled over runs and problems, and
    its p over runs; nothing where runs were evaluated on other problems."""
    keys = list(runs[0].scores)
    if not baseline or any(run.scores.keys() != set(keys) for run in (*runs, *baseline)):
        return MISSING, MISSING
    ours, theirs = (
        np.array([[run.scores[key] for key in keys] for run in group]) for group in (runs, baseline)
    )
    apart = difference(100 * ours, 100 * theirs, random(), [benchmark for benchmark, _ in keys])
    mine, its = ([run.average for run in group] for group in (runs, baseline))
    p = p_of_difference(mine, its, random())
    return f"{apart.value:+.1f}{between(apart, '+.1f')}", number(p)
