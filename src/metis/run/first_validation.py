"""Saves a run's first validation round by round, so that a killed run does not repeat all of it.

There is no checkpoint at that point. The file is deleted when the validation is done.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from metis import files
from metis.run.manifest import SCHEMA

FILE = "first_validation.jsonl"

Answer = tuple[str, float | None]
"""The id of a held-out prompt and its reward, None where it failed."""


class FirstValidation:
    """The rewards known so far, by prompt id; `of` identifies the validation."""

    def __init__(self, folder: Path, of: str) -> None:
        self.path = folder / FILE
        self.rewards: dict[str, float | None] = dict(self._read(of))
        with files.atomic(self.path) as file:  # without a line that a kill left half written
            file.write(_lines([{"schema": SCHEMA, "of": of}, *_rows(self.rewards)]))

    def _read(self, of: str) -> Iterable[Answer]:
        """Rewards of an earlier start; none of another validation or of a partial line."""
        try:
            header, *rows = map(_row, self.path.read_text("utf-8").splitlines())
        except (FileNotFoundError, ValueError):
            return []
        if header.get("of") != of:
            return []
        return [(row["prompt"], row["reward"]) for row in rows if "reward" in row]

    def keep(self, answers: Iterable[Answer]) -> None:
        """Save more rewards."""
        more = dict(answers)
        self.rewards |= more
        with self.path.open("ab") as file:
            file.write(_lines(_rows(more)))

    def end(self) -> None:
        self.path.unlink(missing_ok=True)


def _rows(rewards: Mapping[str, float | None]) -> Iterable[dict[str, Any]]:
    return ({"prompt": name, "reward": value} for name, value in rewards.items())


def _lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    return row if isinstance(row, dict) else {}
