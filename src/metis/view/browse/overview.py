"""Overviews of a run, a survey, an evaluation or a comparison, with series over the steps."""

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from metis.comparisons import plan
from metis.comparisons.comparison import Comparison, read_comparison
from metis.comparisons.measures import MeasuredVariant
from metis.comparisons.verdicts import verdicts
from metis.diagnosis import DiagnosisLine
from metis.errors import MetisError
from metis.run.metrics import reasons
from metis.run.recorded import Recorded
from metis.view.browse.database import Database
from metis.view.browse.opened import Opened, OpenedComparison

Row = dict[str, Any]

SERIES = {
    "accuracy": ("eval/accuracy", ""),
    "informative": ("batch/informative", ""),
    "length": ("rollout/tokens", "rollout/generated"),
    "truncated": ("rollout/cut_off", "rollout/generated"),
    "skill": ("judge/spearman", ""),
}
"""A metric, or its share of another."""
SETTINGS = (
    *("curriculum", "engine", "engine.model", "task", "task.reward", "batch", "group", "steps"),
    *("engine.max_tokens", "engine.temperature", "engine.learning_rate"),
    *("name", "model", "benchmarks", "samples", "max_tokens", "temperature", "seed"),
)
"""Settings that are shown, as far as there are any; the last are those of evaluations."""


def overview(opened: Opened) -> Row:
    database, index = opened.index.database, opened.index
    run, state, wrong = opened.run, opened.state, opened.wrong
    return {
        "label": opened.label,
        "kind": opened.kind,
        "state": state,
        "wrong": wrong,
        "settings": settings(opened.settings),
        "diagnosis": {"lines": [_finding(line) for line in opened.diagnosis(run)]},
        "series": {name: _series(run, *keys) for name, keys in SERIES.items()},
        "steps": sum(row["step"] > 0 for row in run.metrics),
        "last": run.steps,
        "kinds": dict(database.rows("SELECT kind, count(*) FROM members GROUP BY kind")),
        "filters": _filters(database),
        "predicted": database.one("SELECT 1 FROM counts WHERE score IS NOT NULL") is not None,
        "indexed": index.progress,
        "reasons": dict(reasons()),
        "revision": f"{database.revision}-{state}-{len(wrong or '')}",
    }


def _finding(line: DiagnosisLine) -> Row:
    """A line of the diagnosis; what its command would show, these pages have too."""
    _, verb, _, *options = shlex.split(line.command) if line.command else ("", "", "")
    found = {**line._asdict(), "answers": verb == "view", "answer": None}
    if verb == "inspect" and options[:1] == ["--answer"]:
        step, _, rest = options[1].partition("/")
        prompt, _, rollout = rest.rpartition("/")
        found["answer"] = {"kind": "train", "step": step, "prompt": prompt, "rollout": rollout}
    return found


MOST = 200
"""Values of a filter that are offered."""


def _filters(database: Database) -> dict[str, list[str]]:
    """The values of each filter."""
    rows = database.rows("SELECT name, value FROM filters WHERE value <> '' ORDER BY value")
    names = ("category", "outcome", "reason")
    return {name: [value for of, value in rows if of == name][:MOST] for name in names}


def _series(run: Recorded, key: str, whole: str) -> list[list[float]]:
    series = run.share(key, whole) if whole else run.series(key)
    return [list(point) for point in zip(*series, strict=True)]


def settings(config: Mapping[str, Any]) -> Row:
    """The settings that tell one run from another, under short keys."""
    found = {}
    for name in SETTINGS:
        section, _, key = name.partition(".")
        value = config.get(section)
        if name == "benchmarks":
            value = ", ".join(PurePath(each).name for each in value or ()) or None
        elif isinstance(value, dict):
            value = value.get(key or "name")
        elif key:
            continue
        if isinstance(value, str | int | float):
            found[key or name] = value
    return found


class Compared:
    """A comparison, measured again when another of its runs is finished."""

    def __init__(self, opened: OpenedComparison) -> None:
        self.opened = opened
        self._revision = ""
        self._measured: Row = {}

    def overview(self) -> Row:
        runs = self.opened.runs
        revision = "/".join(run.state for run in runs.values())
        if revision != self._revision:
            self._measured, self._revision = self._measure(), revision
        indexed = [run.index.progress for run in runs.values()]
        return {
            "label": self.opened.label,
            "kind": "comparison",
            "state": self.opened.state,
            **self._measured,
            "indexed": {
                "done": all(each["done"] for each in indexed),
                "members": sum(each["members"] for each in indexed),
                "bytes": [sum(each["bytes"][place] for each in indexed) for place in (0, 1)],
            },
            "revision": revision,
        }

    def _measure(self) -> Row:
        """The variants with their runs; a line and a curve of those that can be compared."""
        lines, about, wrong = dict[str, str](), dict[str, Any](), None
        try:
            found = read_comparison(
                self.opened.folder, plan.saved(self.opened.folder), any_baseline=True
            )
            lines, about = dict(verdicts(found)), _about(found)
        except MetisError as error:
            wrong = str(error)
        names = {run.folder.name.rpartition("-")[0]: None for run in self.opened.runs.values()}
        variants = [
            {"name": name, "runs": self._runs(name), "line": lines.get(name)} for name in names
        ]
        nothing: Row = {"baseline": None, "curve": None, "apart": [], "missing": []}
        return {"variants": variants, **nothing, **about, "wrong": wrong}

    def _runs(self, variant: str) -> list[int]:
        runs = self.opened.runs.items()
        return [place for place, run in runs if run.folder.name.rpartition("-")[0] == variant]


def _about(comparison: Comparison) -> Row:
    """Accuracy over the leading cost, each variant's mean over its runs; and runs left out."""
    axis = comparison.lead
    lines = [
        {"name": variant.name, "points": _points(comparison.tested_alike(variant), axis)}
        for variant in comparison.everyone
    ]
    return {
        "baseline": comparison.baseline.name,
        "curve": {"axis": axis, "lines": lines},
        "apart": list(comparison.apart),
        "missing": list(comparison.missing),
    }


def _points(variant: MeasuredVariant, axis: str) -> list[list[float]]:
    means = zip(variant.spent[axis].mean(axis=0), variant.accuracy.mean(axis=0), strict=True)
    return [[float(spent), float(accuracy)] for spent, accuracy in means]
