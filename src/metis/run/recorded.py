"""Reads run folders for reports: settings, metrics as series, validations, timings."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from metis.errors import Damaged, MetisError
from metis.run import composition
from metis.run import folder as run_folder
from metis.run.manifest import Change, current

PHASES = ("judge", "select", "rollout", "reward", "update")
"""Phases of a step, in order; other phases of a run follow."""

BY_BENCHMARK = "eval/accuracy/"

NOT_PHASES = ("schema", "step", "elapsed")


class Series(NamedTuple):
    """One curve: x and y values."""

    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()


class Validation(NamedTuple):
    """A validation; elapsed and standard error are None where not recorded."""

    step: int
    elapsed: float | None
    accuracy: float
    stderr: float | None


@dataclass(frozen=True)
class Recorded:
    """The contents of a run folder, finished or not."""

    folder: Path
    config: dict[str, Any]
    versions: dict[str, Any]
    metrics: list[dict[str, Any]]
    timings: list[dict[str, Any]]
    label: str = ""
    pool: Mapping[str, int] = field(default_factory=dict)
    """Training prompts per category, where recorded."""

    def named(self, key: str) -> str:
        """The name of a section, from the top-level settings or the engine's."""
        for place in (self.config, self.config.get("engine")):
            value = place.get(key) if isinstance(place, dict) else None
            name = value.get("name") if isinstance(value, dict) else value
            if name is not None:
                return str(name)
        return ""

    @property
    def curriculum(self) -> str:
        return self.named("curriculum") or "unknown curriculum"

    @property
    def simulated(self) -> bool:
        return self.named("engine") == "simulated"

    @property
    def steps(self) -> int:
        return int(self.metrics[-1]["step"]) if self.metrics else 0

    @property
    def changes(self) -> list[Change]:
        """Settings that changed when the run was resumed."""
        changes: list[Change] = self.config.get("changes", [])
        return changes

    @property
    def planned(self) -> int:
        """The `steps` setting, or the steps done where it is 0."""
        planned = self.config.get("steps")
        return planned if isinstance(planned, int) and planned else self.steps

    def series(self, metric: str) -> Series:
        """A metric by step, where it is recorded."""
        rows = [row for row in self.metrics if is_number(row.get(metric))]
        steps = tuple(float(row["step"]) for row in rows)
        return Series(steps, tuple(float(row[metric]) for row in rows))

    def share(self, metric: str, whole: str) -> Series:
        """A metric as a share of another, where that is not 0."""
        parts, wholes = self.series(metric), dict(zip(*self.series(whole), strict=True))
        rows = [(x, y / wholes[x]) for x, y in zip(*parts, strict=True) if wholes.get(x)]
        return Series(tuple(x for x, _ in rows), tuple(y for _, y in rows))

    def has(self, metric: str) -> bool:
        """True if any step records the metric."""
        return any(is_number(row.get(metric)) for row in self.metrics)

    @property
    def evaluations(self) -> list[Validation]:
        clock = {row["step"]: row["elapsed"] for row in self.timings if "elapsed" in row}
        clock.setdefault(0, 0.0)
        tests = []
        for row in self.metrics:
            if is_number(row.get("eval/accuracy")):
                stderr = row["eval/stderr"] if is_number(row.get("eval/stderr")) else None
                elapsed = clock.get(row["step"])
                tests.append(Validation(row["step"], elapsed, row["eval/accuracy"], stderr))
        return tests

    def by_benchmark(self, step: int) -> dict[str, float]:
        """The accuracy on every benchmark of a validation; empty where it was on none."""
        row = next((row for row in self.metrics if row["step"] == step), {})
        return {
            key.removeprefix(BY_BENCHMARK): row[key]
            for key in row
            if key.startswith(BY_BENCHMARK) and is_number(row[key])
        }

    @cached_property
    def rewards(self) -> dict[int, dict[str, float]]:
        """The reward of every held-out prompt, by the step of the validation."""
        tests: dict[int, dict[str, float]] = {}
        for row in run_folder.log_rows(self.folder, "evals", optional=True):
            tests.setdefault(row["step"], {})[row["prompt"]] = row["reward"]
        return tests

    @property
    def best(self) -> Validation | None:
        """The best validation, the first of equals; None without one."""
        return max(self.evaluations, key=lambda test: test.accuracy, default=None)

    @property
    def elapsed(self) -> float:
        return float(self.timings[-1].get("elapsed", 0.0)) if self.timings else 0.0

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase over the whole run; the rest is `other`."""
        rows = [phase_seconds(row) for row in self.timings]
        names = dict.fromkeys([*PHASES, *sorted({name for row in rows for name in row})])
        totals = {name: math.fsum(row.get(name, 0.0) for row in rows) for name in names}
        seconds = {name: total for name, total in totals.items() if total}
        other = self.elapsed - sum(seconds.values())
        return seconds | ({"other": other} if other > 0.001 * self.elapsed else {})

    @property
    def judged(self) -> bool:
        """True where prompts were judged, or their outcomes predicted."""
        return self.has("judge/failure_rate") or self.has("judge/v_hat_mean")

    @property
    def judge_share(self) -> float | None:
        """The judge's share of the time; None without a judge."""
        judging = self.phases.get("judge", 0.0)
        return judging / self.elapsed if judging and self.elapsed else None

    @property
    def selected(self) -> int:
        """Steps in which the judge selected alone, not on trial."""
        return (self.series("select/trial").y + self.series("select/guarded").y).count(0.0)

    @property
    def tried(self) -> int:
        """Steps in which the judge was on trial, and selected half of the batch."""
        return self.series("select/trial").y.count(1.0)

    @property
    def trials(self) -> list[tuple[float, float]]:
        """The spans of steps in which the judge was on trial, for plots."""
        spans: list[tuple[float, float]] = []
        for step, trial in zip(*self.series("select/trial"), strict=True):
            if trial and spans and spans[-1][1] == step - 0.5:
                spans[-1] = spans[-1][0], step + 0.5
            elif trial:
                spans.append((step - 0.5, step + 0.5))
        return spans

    def judge_shares(self) -> Series:
        """The judge's share of the time of every step; empty without a judge."""
        if self.judge_share is None:
            return Series()
        rows = [(row["step"], phase_seconds(row)) for row in self.timings]
        rows = [(step, seconds) for step, seconds in rows if sum(seconds.values()) > 0]
        shares = (seconds.get("judge", 0.0) / sum(seconds.values()) for _, seconds in rows)
        return Series(tuple(float(step) for step, _ in rows), tuple(shares))

    def step_seconds(self) -> Series:
        """Seconds of every step."""
        steps = tuple(float(row["step"]) for row in self.timings)
        return Series(steps, tuple(sum(phase_seconds(row).values()) for row in self.timings))

    @property
    def informative(self) -> float | None:
        """The mean share of trained groups that were informative."""
        shares = self.series("batch/informative").y
        return math.fsum(shares) / len(shares) if shares else None

    @property
    def rollouts(self) -> float | None:
        generated = self.series("total/rollout_generated").y
        return generated[-1] if generated else None


def read_run(folder: Path) -> Recorded:
    """Read a run folder; anything else, or a corrupted one, is refused."""
    if not folder.is_dir():
        what = "a file" if folder.exists() else "there is no such folder"
        raise MetisError(f"run {str(folder)!r}: {what}: name a run folder")
    if not (folder / "config.json").is_file():
        raise MetisError(f"run {str(folder)!r} has no config.json: name a run folder")
    return Recorded(
        folder=folder,
        config=current(read_document(folder / "config.json")),
        versions=read_document(folder / "versions.json", optional=True),
        metrics=run_folder.read_log(folder, "metrics"),
        timings=run_folder.read_log(folder, "timings", optional=True),
        pool=composition.read_composition(folder),
    )


def read_runs(folders: Sequence[Path]) -> list[Recorded]:
    """Read runs, without duplicates, with labels that are unique (by parent folders if needed)."""
    unique: dict[Path, Path] = {}
    for folder in folders:
        unique.setdefault(folder.resolve(), folder)
    runs = [read_run(folder) for folder in unique.values()]
    labels = unique_labels(runs)
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def unique_labels(runs: Sequence[Recorded]) -> list[str]:
    """Labels of runs of different folders: curriculum and seed, and parent folders if needed."""
    labels, paths = [_label(run) for run in runs], [run.folder.resolve() for run in runs]
    for depth in range(1, max((len(path.parts) for path in paths), default=0)):
        repeated = {label for label, count in Counter(labels).items() if count > 1}
        labels = [
            f"{_label(run)} · {'/'.join(path.parts[-depth:])}" if label in repeated else label
            for run, path, label in zip(runs, paths, labels, strict=True)
        ]
    return labels


def _label(run: Recorded) -> str:
    seed = run.config.get("seed")
    return run.curriculum if seed is None else f"{run.curriculum} · seed {seed}"


def is_number(value: object) -> bool:
    """True for a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def phase_seconds(row: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of each phase in a row of timings."""
    return {key: row[key] for key in row if key not in NOT_PHASES and is_number(row[key])}


def read_document(path: Path, optional: bool = False) -> dict[str, Any]:
    """A JSON object in a file of a run folder; empty where an optional one is not there."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        if optional:
            return {}
        raise
    except OSError as error:
        raise MetisError(f"{str(path)!r} cannot be read ({error.strerror}): mend that") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        said = f"{str(path)!r} is damaged: restore it, or leave this run out"
        raise Damaged(said, path.parent, path.name)
    return content
