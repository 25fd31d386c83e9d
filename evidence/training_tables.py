"""Tables of judges in training: what the arms of a comparison chose, and what came of it."""

import gzip
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metis.compare.measures import Measured, find, measure
from metis.markdown import markdown_table
from metis.run import folder as run_folder
from metis.run.statistics import Estimate, mean

BASELINE = "uniform"
PROBES = ("probe", "probe-first")
READOUTS = ("readout", "readout-first", "readout-trial")
ARMS = (BASELINE, f"{BASELINE}-first", *PROBES, *READOUTS)
SEEDS = range(10)
PARTS = ((1, 10), (11, 20), (21, 1 << 20))
"""Steps that the judge's skill is averaged over."""
BEFORE = "before"
"""The untrained model, among the runs."""
ABOVE = "above uniform's, by problem"
NONE = "–"

Cell = Callable[[Measured, range], str]
Scores = Mapping[str, Mapping[str, float]]
"""The mean score of each problem, by run."""


def results(folder: Path) -> str:
    """Every arm: its accuracy over the run and at the end, and mean@4 on MATH-500 at the end."""
    arms, sampled = _arms(folder), _sampled(folder / "math500.jsonl.gz")
    greedy = {run: _tests(folder / run)[-1] for arm in arms.values() for run in _runs(arm)}
    greedy[BEFORE] = _tests(folder / _runs(arms[BASELINE])[0])[0]
    shared = {name: arm.at_tests_of(*arms.values()) for name, arm in arms.items()}
    heads = ["arm", "steps", f"accuracy, mean of tests to step {shared[BASELINE].steps[-1]}"]
    heads += ["above uniform's, by seed", "accuracy of the last test, by run", ABOVE]
    rows = [[*heads, "mean@4 at the end, by run", ABOVE]]
    for name, arm in arms.items():
        change = NONE if name == BASELINE else _signed(_above(shared[name], shared[BASELINE]))
        steps = ", ".join(str(record.steps) for record in arm.records)
        rows.append([f"`{name}`", steps, f"{shared[name].accuracy.mean():.1%}", change])
    rows.append([BEFORE, *[NONE] * 3])
    first = _runs(arms[BASELINE])
    for row, runs in zip(rows[1:], [*map(_runs, arms.values()), [BEFORE]], strict=True):
        row += [*_end(greedy, runs, first), *_end(sampled, runs, first)]
    return markdown_table(rows)


def at_once(folder: Path) -> str:
    """Accuracy at the last test that all runs have, earlier runs of an arm among its runs."""
    arms, probe, readout = _arms(folder), PROBES[0], READOUTS[0]
    shared = {name: arm.at_tests_of(*arms.values()) for name, arm in arms.items()}
    ends = {name: arm.accuracy[:, -1].tolist() for name, arm in shared.items()}
    runs = {name: ends[name] + ends.get(f"{name}-first", []) for name in (BASELINE, probe, readout)}
    heads = ["arm", f"accuracy at step {shared[BASELINE].steps[-1]}, by run", "mean"]
    rows = [[*heads, "above uniform's, over runs", "above the probe's, over runs"]]
    for name, mine in runs.items():
        by_run = ", ".join(f"{accuracy:.1%}" for accuracy in mine)
        rows.append([f"`{name}`", by_run, f"{np.mean(mine):.1%}"])
        for other in BASELINE, probe:
            rows[-1].append(NONE if name == other else _signed(_apart(mine, runs[other])))
    return markdown_table(rows)


def _apart(one: list[float], other: list[float]) -> Estimate:
    """The difference of two means, over runs that are not paired."""
    first, second = mean(one), mean(other)
    known = first.error is not None and second.error is not None
    error = math.hypot(first.error or 0.0, second.error or 0.0) if known else None
    return Estimate(first.mean - second.mean, error)


def _above(arm: Measured, baseline: Measured) -> Estimate:
    """The difference of mean accuracies, over the seeds that both have."""
    mine, its = (
        dict(zip(one.seeds, one.accuracy.mean(axis=1).tolist(), strict=True))
        for one in (arm, baseline)
    )
    return mean([mine[seed] - its[seed] for seed in arm.seeds if seed in its])


def skill(folder: Path) -> str:
    """Informative groups and rewards of what was chosen over the steps, and the judges' skill."""
    arms = _arms(folder)
    readouts = {name: arm for name, arm in arms.items() if name in READOUTS}
    judged = {name: arm for name, arm in arms.items() if name in (*PROBES, *READOUTS)}
    spans = [range(first, last + 1) for first, last in PARTS]
    heads = [f"{steps[0]} to {steps[-1]}" for steps in spans[:-1]]
    rows = [["", "arm", *(f"steps {head}" for head in heads), f"from step {spans[-1][0]}"]]

    def add(title: str, chosen: Mapping[str, Measured], cell: Cell) -> None:
        for name, arm in chosen.items():
            rows.append([title, f"`{name}`", *(cell(arm, steps) for steps in spans)])

    add("informative groups", arms, lambda arm, at: f"{_mean(arm, 'batch/informative', at):.1%}")
    add("mean reward", arms, lambda arm, at: f"{_mean(arm, 'batch/reward', at):.3f}")
    add("chosen by the judge", readouts, lambda arm, at: f"{_judged(arm, at):.0%}")
    key = "select/held_out_pearson"
    add("held-out correlation", judged, lambda arm, at: f"{_mean(arm, key, at):.2f}")
    return markdown_table(rows)


def _judged(arm: Measured, steps: range) -> float:
    """The share of groups that the judge chose; others are explored."""
    return 1 - _mean(arm, "select/explored", steps) / _mean(arm, "batch/groups", steps)


def _arms(folder: Path) -> dict[str, Measured]:
    """The arms there are, by name."""
    found = find(folder, ARMS, SEEDS)
    return {name: measure(name, folders) for name, folders in found.items()}


def _runs(arm: Measured) -> list[str]:
    return [f"{arm.name}-{seed}" for seed in arm.seeds]


def _mean(arm: Measured, key: str, steps: range) -> float:
    """The mean of a metric over steps, and then over runs."""
    means = []
    for record in arm.records:
        rows = [row for row in record.metrics if row["step"] and key in row]
        means.append([row[key] for row in rows if row["step"] in steps])
    return float(np.mean([np.mean(values) for values in means if values]))


def _sampled(path: Path) -> Scores:
    """The mean score of four answers to each problem, at the end of every run that has it."""
    scores: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            scores.setdefault(row["run"], {})[row["problem"]] = float(np.mean(row["scores"]))
    return scores


def _tests(run: Path) -> list[dict[str, float]]:
    """The score of the greedy answer to each problem, test by test."""
    tests: dict[int, dict[str, float]] = {}
    for row in run_folder.read(run, "evals"):
        tests.setdefault(row["step"], {})[row["prompt"]] = row["reward"]
    return list(tests.values())


def _end(scores: Scores, runs: list[str], baseline: list[str]) -> tuple[str, str]:
    """The mean of each run that has scores, and how far they are above the baseline's.

    Runs are averaged problem by problem, whatever their seeds.
    """
    one, other = ([run for run in names if run in scores] for names in (runs, baseline))
    if not one:
        return NONE, NONE
    by_run = ", ".join(f"{np.mean(list(scores[run].values())):.1%}" for run in one)
    if not other or one == other:
        return by_run, NONE
    problems = sorted(set.intersection(*(set(scores[run]) for run in one + other)))

    def averaged(names: list[str]) -> NDArray[np.float64]:
        return np.mean([[scores[name][problem] for problem in problems] for name in names], axis=0)

    return by_run, _signed(mean((averaged(one) - averaged(other)).tolist()))


def _signed(change: Estimate) -> str:
    return f"{change.mean:+.1%}" + (f" ± {change.error:.1%}" if change.error else "")
