"""The tables of `judge_offline.py`: means over splits, and differences from the probe in pairs."""

from collections.abc import Sequence
from typing import Any

from offline_rows import PROBE, ROWS, SHOWN

from metis.run.statistics import mean
from metis.text import markdown_table

COLUMNS = {
    "spearman": "Spearman",
    "lift": "lift of the top eighth",
    "calibration": "calibration error",
    "reward": "mean reward of the top eighth",
    "informative": "informative share of the top eighth",
}


def table(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """A section for each set and number of labels."""
    return _sections(rows, about, about["labels"])


def summary(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """The skill by number of labels, and a section for each set with all labels."""
    mine = [row for row in rows if row["set"] in about["sets"]]
    text = _sections(mine, about, about["labels"][-1:])
    if len(about["labels"]) == 1:
        return text
    return f"{text}\n### Spearman by number of labels\n\n{markdown_table(_growth(mine, about))}"


def _growth(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> list[list[str]]:
    columns = [(name, count) for name in about["sets"] for count in about["labels"]]
    lines = [["judge", *(f"{name}, {count}" for name, count in columns)]]
    for judge in SHOWN:
        mine = [row for row in rows if row["row"] == judge]
        cells = [
            estimate([row["spearman"] for row in mine if (row["set"], row["labels"]) == column])
            for column in columns
        ]
        if set(cells) != {"–"}:
            lines.append([_named(judge), *cells])
    return lines


def _sections(rows: Sequence[dict[str, Any]], about: dict[str, Any], labels: Sequence[int]) -> str:
    sections = [f"{about['model']}, learning rate {about['learning_rate']:g}.\n"]
    for name in dict.fromkeys(row["set"] for row in rows):
        for count in labels:
            mine = [row for row in rows if (row["set"], row["labels"]) == (name, count)]
            if mine:
                rest = round(sum(row["prompts"] for row in mine) / len(mine))
                sections.append(f"### {name}: {count} labels, about {rest} other prompts\n")
                sections.append(markdown_table(list(_lines(mine))))
    return "\n".join(sections)


def _lines(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    lines = [
        ["judge", "splits", "Spearman", "difference from the probe", *list(COLUMNS.values())[1:]]
    ]
    probe = {row["split"]: row["spearman"] for row in rows if row["row"] == PROBE}
    for name in SHOWN:
        mine = {row["split"]: row for row in rows if row["row"] == name}
        if mine:
            above = [
                row["spearman"] - probe[split]
                for split, row in mine.items()
                if name != PROBE and row["spearman"] is not None and probe.get(split) is not None
            ]
            first, *others = (estimate([row[key] for row in mine.values()]) for key in COLUMNS)
            lines.append([_named(name), str(len(mine)), first, estimate(above, "+"), *others])
    return lines


def _named(row: str) -> str:
    """A row that cannot be measured again, since its settings are gone, has a mark."""
    return row if row in ROWS else f"{row} †"


def estimate(values: Sequence[float | None], sign: str = "") -> str:
    """Mean and standard error; a dash where it is not defined."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "–"
    estimate = mean(numbers)
    error = "" if estimate.error is None or len(numbers) < 2 else f" ± {estimate.error:.3f}"
    return f"{estimate.mean:{sign}.3f}{error}"
