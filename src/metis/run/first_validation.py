"""The first validation of a run, written down part by part: a killed run need not repeat all of it.

No checkpoint is there yet to go on from. The file is gone when the validation is over.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from metis.run.manifest import SCHEMA

FILE = "first_validation.jsonl"

Answer = tuple[str, float | None]
"""A held-out prompt and its reward, None where it failed."""


class FirstValidation:
    """Rewards by prompt, as far as they are known; `of` tells one validation from another."""

    def __init__(self, folder: Path, of: str) -> None:
        self.path = folder / FILE
        self.rewards: dict[str, float | None] = dict(self._read(of))
        if not self.rewards:
            self._write([{"schema": SCHEMA, "of": of}], "w")

    def _read(self, of: str) -> Iterable[Answer]:
        """What an earlier start has left; nothing of another validation, or of a torn line."""
        try:
            header, *rows = map(_row, self.path.read_text("utf-8").splitlines())
        except (FileNotFoundError, ValueError):
            return []
        if header.get("of") != of:
            return []
        return [(row["prompt"], row["reward"]) for row in rows if "reward" in row]

    def keep(self, answers: Iterable[Answer]) -> None:
        """Write down some more."""
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
