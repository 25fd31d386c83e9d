"""The runs of an arm as curves over what they cost, and the facts that a table states of them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metis.compare.inference import Floats, Runs, smoothed
from metis.errors import MetisError
from metis.report.curves import Recorded, read
from metis.run.statistics import Estimate, mean

AXES = ("steps", "rollouts", "generated tokens", "processed tokens", "seconds")


@dataclass(frozen=True)
class Measured:
    """The runs of an arm, at the tests that all of them have."""

    name: str
    seeds: tuple[int, ...]
    records: tuple[Recorded, ...]
    steps: tuple[int, ...]
    accuracy: Floats
    """One row a run, one column a test."""
    spent: Mapping[str, Floats]
    """Costs up to each test, by axis."""

    def runs(self, axis: str) -> Runs:
        return Runs(self.accuracy, self.spent[axis], self.seeds)

    def at_tests_of(self, other: "Measured") -> "Measured":
        """The same at only those tests that another arm has too."""
        columns = [place for place, step in enumerate(self.steps) if step in other.steps]
        return replace(
            self,
            steps=tuple(self.steps[place] for place in columns),
            accuracy=self.accuracy[:, columns],
            spent={axis: costs[:, columns] for axis, costs in self.spent.items()},
        )

    @property
    def best(self) -> tuple[int, Estimate]:
        """The step and the accuracy of the best test, of the curve averaged over runs and three
        neighbouring tests."""
        place = int(smoothed(self.accuracy.mean(axis=0)).argmax())
        return self.steps[place], mean(smoothed(self.accuracy)[:, place].tolist())

    @property
    def final(self) -> Estimate:
        return mean(self.accuracy[:, -1].tolist())

    def at(self, axis: str, cost: float) -> Estimate:
        """Accuracy at a cost, interpolated between tests."""
        pairs = zip(self.spent[axis], self.accuracy, strict=True)
        return mean([float(np.interp(cost, spent, accuracy)) for spent, accuracy in pairs])

    def fact(self, of: Callable[[Recorded], float | None]) -> Estimate | None:
        """The mean of a number over the runs; None where any has none."""
        values = [of(record) for record in self.records]
        numbers = [value for value in values if value is not None]
        return mean(numbers) if len(numbers) == len(values) else None


def measure(name: str, folders: Mapping[int, Path]) -> Measured:
    """Read the runs of an arm, by seed."""
    records = tuple(read(folder) for folder in folders.values())
    tests = [_tests(record) for record in records]
    steps = sorted(set.intersection(*(set(test) for test in tests)))
    if len(steps) < 2:
        raise MetisError(
            f"arm {name!r}: its runs have {len(steps)} tests in common, two are needed; train "
            "longer, or set evaluate to a smaller number of steps"
        )
    accuracy = np.array([[test[step]["eval/accuracy"] for step in steps] for test in tests])
    costs = np.array(
        [
            [_spent(test[step], _clock(record).get(step, 0.0)) for step in steps]
            for record, test in zip(records, tests, strict=True)
        ]
    )
    spent = {axis: costs[:, :, place] for place, axis in enumerate(AXES)}
    return Measured(name, tuple(folders), records, tuple(steps), accuracy, spent)


def _tests(record: Recorded) -> dict[int, dict[str, Any]]:
    return {row["step"]: row for row in record.metrics if "eval/accuracy" in row}


def _clock(record: Recorded) -> dict[int, float]:
    return {row["step"]: float(row["elapsed"]) for row in record.timings if "elapsed" in row}


def _spent(row: Mapping[str, Any], seconds: float) -> list[float]:
    """The costs of a run up to a test, in the order of AXES."""
    processed = sum(
        row[key] for key in row if key.startswith("total/") and key.endswith("_processed")
    )
    generated = row.get("total/rollout_tokens", 0.0) + row.get("total/judge_tokens", 0.0)
    return [row["step"], row.get("total/rollout_generated", 0.0), generated, processed, seconds]


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
    """Tokens of rollouts over the seconds of training."""
    tokens = record.metrics[-1].get("total/rollout_tokens") if record.metrics else None
    return float(tokens) / record.elapsed if tokens and record.elapsed else None


def find(
    out: Path, names: Sequence[str], seeds: Sequence[int], missing: Collection[str]
) -> dict[str, dict[int, Path]]:
    """The run folders there are, by arm and seed, without those that are not finished."""
    runs: dict[str, dict[int, Path]] = {}
    for name in names:
        folders = {seed: out / f"{name}-{seed}" for seed in seeds}
        there = {
            seed: path
            for seed, path in folders.items()
            if (path / "config.json").exists() and path.name not in missing
        }
        if there:
            runs[name] = there
    return runs
