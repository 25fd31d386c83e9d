"""The meaning of a run's records: every metric, every field of its logs, every word shown.

The table is `metrics.toml`; `docs/metrics.md` is made from it.
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
    "type": "easy|hard|partial",
    "value": r"0\.\d\d",
}
"""Patterns of what differs in a name; `<counter>` is any of the counts."""

METRIC = "METRIC"
"""The field that stands for all metrics."""


class MetricMeaning(NamedTuple):
    """A number of `metrics.jsonl`, and who writes it."""

    name: str
    unit: str
    by: str
    meaning: str


class MetricSection(NamedTuple):
    """Metrics that belong together."""

    title: str
    about: str
    metrics: tuple[MetricMeaning, ...]


class Field(NamedTuple):
    """A field of the rows of a log."""

    name: str
    meaning: str


class Log(NamedTuple):
    """A file of rows, each of which has a step and a schema version."""

    name: str
    about: str
    fields: tuple[Field, ...]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("metrics.toml").read_text("utf-8"))


def sections() -> Iterator[MetricSection]:
    """All metrics."""
    for part in _table()["metrics"]:
        yield MetricSection(
            part["title"], part["about"], tuple(MetricMeaning(*row) for row in part["rows"])
        )


def logs() -> Iterator[Log]:
    """The logs of a run folder."""
    for part in _table()["logs"]:
        yield Log(part["name"], part["about"], tuple(Field(*field) for field in part["fields"]))


def files() -> Mapping[str, str]:
    """The other files of a run folder."""
    return _explained("files")


def reasons() -> Mapping[str, str]:
    """Meaning of a reason for which a candidate was, or was not, rolled out."""
    return _explained("reasons")


def words() -> Mapping[str, str]:
    """Words of the terminal and the report."""
    return _explained("words")


def _explained(part: str) -> Mapping[str, str]:
    table: dict[str, str] = _table()[part]
    return table


def metric(name: str) -> MetricMeaning | None:
    """The entry of a metric."""
    entries = (entry for pattern, entry in _patterns() if pattern.fullmatch(name))
    return next(entries, None)


def unexplained(log: str, names: Iterable[str]) -> list[str]:
    """Names in a row of a log that nothing explains."""
    [explained] = (each.fields for each in logs() if each.name == f"{log}.jsonl")
    fields = {"schema", *(field.name for field in explained)}
    return [
        name for name in names if name not in fields and not (METRIC in fields and metric(name))
    ]


def reason(text: str) -> str | None:
    """The meaning of a reason in `judgments.jsonl`."""
    meanings = (said for name, said in reasons().items() if _pattern(name).fullmatch(text))
    return next(meanings, None)


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], MetricMeaning]]:
    return [(_pattern(entry.name), entry) for part in sections() for entry in part.metrics]


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """The names that one with placeholders stands for."""
    parts = re.split(r"<(\w+)>", name)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?:{PLACEHOLDERS.get(part) or _counters()})" for part in parts[1::2]]
    return re.compile("".join(parts))


def _counters() -> str:
    counted = (part["rows"] for part in _table()["metrics"] if part.get("counted"))
    return "|".join(row[0].replace("/", "_") for rows in counted for row in rows)
