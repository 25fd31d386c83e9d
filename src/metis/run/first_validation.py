"""Saves a run's first validation round by round, so that a killed run does not repeat all of it.

There is no checkpoint at that point. The file is deleted when the validation is done.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from metis.run.manifest import SCHEMA

FILE = "first_validation.jsonl"

Answer = tuple[str, float | None]
"""The id of a held-out prompt and its reward, None where it failed."""


class FirstValidation:
    """The rewards known so far, by prompt id; `of` identifies the validation."""

    def __init__(self, folder: Path, of: str) -> None:
        self.path = folder / FILE
        self.rewards: dict[str, float | None] = dict(self._read(of))
        if not self.rewards:
            self._write([{"schema": SCHEMA, "of": of}], "w")

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
        self._write(({"prompt": name, "reward": value} for name, value in more.items()), "a")

    def _write(self, rows: Iterable[dict[str, Any]], mode: str) -> None:
        with self.path.open(mode, encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)

    def end(self) -> None:
        self.path.unlink(missing_ok=True)


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    return row if isinstance(row, dict) else {}
