"""Documentation of every metric, log field and term of a run.

The table is `metrics.toml`; `docs/metrics.md` is generated from it.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

PLACEHOLDERS = {
    "arm": r"\d+",
    "benchmark": ".+",
    "kind": "no_box|not_a_number|out_of_range|cut_off|does_not_fit",
    "label": ".*",
    "name": ".+",
    "number": r"\d+",
    "pool": "unseen|hard|normal|easy|mastered",
    "type": "easy|hard|partial",
    "value": r"0\.\d\d",
}
"""Regular expressions of the placeholders in names; `<counter>` is any of the counters."""

METRIC = "METRIC"
"""The log field that stands for all metrics."""


class MetricMeaning(NamedTuple):
    """A metric of `metrics.jsonl`, and which curricula or engines write it."""

    name: str
    unit: str
    by: str
    meaning: str


class MetricSection(NamedTuple):
    """A group of related metrics."""

    title: str
    about: str
    metrics: tuple[MetricMeaning, ...]


class Field(NamedTuple):
    """A field of the rows of a log."""

    name: str
    meaning: str


class LogMeaning(NamedTuple):
    """A JSONL log, whose rows have a step and a schema version."""

    name: str
    about: str
    fields: tuple[Field, ...]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("metrics.toml").read_text("utf-8"))


def metric_sections() -> Iterator[MetricSection]:
    """All metrics."""
    for part in _table()["metrics"]:
        yield MetricSection(
            part["title"], part["about"], tuple(MetricMeaning(*row) for row in part["rows"])
        )


def logs() -> Iterator[LogMeaning]:
    """The logs of a run folder."""
    for part in _table()["logs"]:
        yield LogMeaning(
            part["name"], part["about"], tuple(Field(*field) for field in part["fields"])
        )


def files() -> Mapping[str, str]:
    """The other files of a run folder."""
    return _explained("files")


def reasons() -> Mapping[str, str]:
    """Meanings of the reasons for which candidates are, or are not, rolled out."""
    return _explained("reasons")


def glossary() -> Mapping[str, str]:
    """Terms of the terminal and the report."""
    return _explained("words")


def _explained(part: str) -> Mapping[str, str]:
    table: dict[str, str] = _table()[part]
    return table


def metric_entry(name: str) -> MetricMeaning | None:
    """The entry of a metric."""
    entries = (entry for pattern, entry in _patterns() if pattern.fullmatch(name))
    return next(entries, None)


def unexplained(log: str, names: Iterable[str]) -> list[str]:
    """Names in a row of a log that are not documented."""
    [explained] = (each.fields for each in logs() if each.name == f"{log}.jsonl")
    fields = {"schema", *(field.name for field in explained)}
    return [
        name
        for name in names
        if name not in fields and not (METRIC in fields and metric_entry(name))
    ]


def reason(text: str) -> str | None:
    """The meaning of a reason in `judgments.jsonl`."""
    meanings = (said for name, said in reasons().items() if _pattern(name).fullmatch(text))
    return next(meanings, None)


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], MetricMeaning]]:
    return [(_pattern(entry.name), entry) for part in metric_sections() for entry in part.metrics]


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """The regular expression of a name with placeholders."""
    parts = re.split(r"<(\w+)>", name)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?:{PLACEHOLDERS.get(part) or _counters()})" for part in parts[1::2]]
    return re.compile("".join(parts))


def _counters() -> str:
    counted = (part["rows"] for part in _table()["metrics"] if part.get("counted"))
    return "|".join(row[0].replace("/", "_") for rows in counted for row in rows)
