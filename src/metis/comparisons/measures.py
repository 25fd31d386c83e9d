"""A variant's runs as accuracy-over-cost curves, and the numbers of its table row."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metis.comparisons.crossing import Floats, kept
from metis.comparisons.significance import Runs
from metis.errors import MetisError
from metis.run.recorded import Recorded, is_number, read_run
from metis.run.statistics import Estimate, mean
from metis.tasks.benchmarks.validation import benchmark

AXES = ("steps", "rollouts", "generated tokens", "total tokens", "seconds")


class Problems(NamedTuple):
    """The rewards of the problems that all runs of a variant share: by run, test, problem."""

    names: tuple[str, ...]
    sets: tuple[str, ...]
    """The benchmark that each is of."""
    rewards: Floats


@dataclass(frozen=True)
class MeasuredVariant:
    """The runs of a variant, at the tests that all of them have."""

    name: str
    seeds: tuple[int, ...]
    records: tuple[Recorded, ...]
    steps: tuple[int, ...]
    accuracy: Floats
    """One row a run, one column a test."""
    spent: Mapping[str, Floats]
    """Costs up to each test, by axis."""
    problems: Problems | None = None
    """None where the runs did not log them, or were tested on others."""

    def runs(self, axis: str) -> Runs:
        return Runs(self.accuracy, self.spent[axis])

    def at_tests_of(self, *others: "MeasuredVariant") -> "MeasuredVariant":
        """The variant at only the tests that the other variants have too."""
        return self._at(step for step in self.steps if all(step in o.steps for o in others))

    def tested_as(self, *others: "MeasuredVariant") -> "MeasuredVariant":
        """The variant at only the tests of the others, and at all tests after their last."""
        return self._at(
            step
            for step in self.steps
            if all(step in other.steps or step > other.steps[-1] for other in others)
        )

    def _at(self, steps: Iterable[int]) -> "MeasuredVariant":
        columns = [self.steps.index(step) for step in steps]
        problems = self.problems
        if problems is not None:
            problems = problems._replace(rewards=problems.rewards[:, columns])
        return replace(
            self,
            steps=tuple(self.steps[place] for place in columns),
            accuracy=self.accuracy[:, columns],
            spent={axis: costs[:, columns] for axis, costs in self.spent.items()},
            problems=problems,
        )

    @property
    def best(self) -> tuple[int, Estimate]:
        """The highest accuracy of the averaged curve that the next test keeps, and its step."""
        averaged = self.accuracy.mean(axis=0)
        place = int(kept(averaged).argmax())
        lower = place + int(averaged[place + 1] < averaged[place])
        return self.steps[place], mean(self.accuracy[:, lower].tolist())

    @property
    def final(self) -> Estimate:
        return mean(self.accuracy[:, -1].tolist())

    def at(self, axis: str, cost: float) -> Estimate:
        """Accuracy at a cost, interpolated between tests."""
        pairs = zip(self.spent[axis], self.accuracy, strict=True)
        return mean([float(np.interp(cost, spent, accuracy)) for spent, accuracy in pairs])

    def fact(self, of: Callable[[Recorded], float | None]) -> Estimate | None:
        """The mean of a number over the runs; None if a run lacks it."""
        values = [of(record) for record in self.records]
        numbers = [value for value in values if value is not None]
        return mean(numbers) if numbers and len(numbers) == len(values) else None


def measure(name: str, folders: Mapping[int, Path]) -> MeasuredVariant:
    """Read the runs of a variant, by seed."""
    return measured(name, {seed: read_run(folder) for seed, folder in folders.items()})


def measured(name: str, runs: Mapping[int, Recorded]) -> MeasuredVariant:
    """The runs of a variant, by seed, at the tests that all of them have."""
    records = tuple(runs.values())
    tests = [_tests(record) for record in records]
    steps = sorted(set.intersection(*(set(test) for test in tests)))
    if len(steps) < 2:
        raise MetisError(
            f"variant {name!r}: its runs have {len(steps)} tests in common, two are needed; train "
            "longer, or set evaluate to a smaller number of steps"
        )
    accuracy = np.array([[test[step]["eval/accuracy"] for step in steps] for test in tests])
    costs = np.array(
        [
            [_spent(test[step], _clock(record).get(step, math.nan)) for step in steps]
            for record, test in zip(records, tests, strict=True)
        ]
    )
    spent = {axis: costs[:, :, place] for place, axis in enumerate(AXES)}
    problems = _problems(records, steps, accuracy)
    return MeasuredVariant(name, tuple(runs), records, tuple(steps), accuracy, spent, problems)


def _problems(
    records: Sequence[Recorded], steps: Sequence[int], accuracy: Floats
) -> Problems | None:
    """The rewards of all problems, if all tests of all runs are on the same ones, without gaps."""
    names = sorted(records[0].rewards.get(steps[0], {}))
    tests = [[record.rewards.get(step, {}) for step in steps] for record in records]
    if not names or any(sorted(test) != names for run in tests for test in run):
        return None
    several = records[0].config.get("benchmarks")
    sets = tuple(benchmark(name) if several else "" for name in names)
    rewards = np.array([[[test[name] for name in names] for test in run] for run in tests])
    counts = Counter(sets)
    shares = np.array([1 / counts[each] / len(counts) for each in sets])
    same = np.allclose(rewards @ shares, accuracy, atol=1e-6)
    return Problems(tuple(names), sets, rewards) if same else None


def _tests(record: Recorded) -> dict[int, dict[str, Any]]:
    return {row["step"]: row for row in record.metrics if is_number(row.get("eval/accuracy"))}


def _clock(record: Recorded) -> dict[int, float]:
    """Cumulative seconds of training by step, where they were logged; 0 before training."""
    seconds = {row["step"]: float(row["elapsed"]) for row in record.timings if "elapsed" in row}
    return {0: 0.0} | seconds


def _spent(row: Mapping[str, Any], seconds: float) -> list[float]:
    """The costs of a run up to a test, in the order of AXES."""
    totals = {key: value or 0.0 for key, value in row.items() if key.startswith("total/")}
    processed = sum(totals[key] for key in totals if key.endswith("_processed"))
    generated = totals.get("total/rollout_tokens", 0.0) + totals.get("total/judge_tokens", 0.0)
    return [row["step"], totals.get("total/rollout_generated", 0.0), generated, processed, seconds]


def average(metric: str) -> Callable[[Recorded], float | None]:
    """The mean of a metric over the steps that have it."""

    def of(record: Recorded) -> float | None:
        values = record.series(metric).y
        return float(np.mean(values)) if values else None

    return of


def waste(record: Recorded) -> float | None:
    """Share of generated tokens in groups without variance."""
    last: Mapping[str, Any] = record.metrics[-1] if record.metrics else {}
    tokens, wasted = last.get("total/rollout_tokens"), last.get("total/rollout_wasted")
    return wasted / tokens if tokens and wasted is not None else None


def seconds_a_step(record: Recorded) -> float | None:
    return record.elapsed / record.steps if record.elapsed and record.steps else None


def tokens_a_second(record: Recorded) -> float | None:
    """Generated tokens per second of training."""
    tokens = record.metrics[-1].get("total/rollout_tokens") if record.metrics else None
    return float(tokens) / record.elapsed if tokens and record.elapsed else None


def find(out: Path, names: Sequence[str], seeds: Sequence[int]) -> dict[str, dict[int, Path]]:
    """Existing run folders, by variant and seed."""
    runs: dict[str, dict[int, Path]] = {}
    for name in names:
        folders = {seed: out / f"{name}-{seed}" for seed in seeds}
        there = {seed: path for seed, path in folders.items() if (path / "config.json").exists()}
        if there:
            runs[name] = there
    return runs
