"""Problems of a prepared file, whose tests stay on disk until an answer is scored.

The tests of CodeContests+ or LiveCodeBench take gigabytes, and every reward worker loads the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from metis.core import Chat, Prompt
from metis.data import parquet
from metis.data.problems import difficulty, written
from metis.tasks.code import records
from metis.tasks.code.problem import Problem
from metis.tasks.code.statement import FUNCTION, PROGRAM, wrap

LIGHT = ("prompt", "extra_info")
"""Columns that are read when the file is opened."""


class Entry(Protocol):
    """A problem whose tests may still be on disk."""

    @property
    def id(self) -> str: ...

    @property
    def statement(self) -> str: ...

    @property
    def prompt(self) -> Prompt: ...

    def chat(self, instruction: str = "") -> Chat: ...

    def whole(self) -> Problem: ...


@dataclass(frozen=True)
class Stored:
    """A row of a prepared file."""

    prompt: Prompt
    asked: str
    path: Path
    row: int

    @property
    def id(self) -> str:
        return self.prompt.id

    @property
    def statement(self) -> str:
        return self.asked.removesuffix(PROGRAM).removesuffix(FUNCTION).strip()

    def chat(self, instruction: str = "") -> Chat:
        return wrap(self.statement, instruction) if instruction else wrap(self.asked, "")

    def whole(self) -> Problem:
        """The problem with its tests, read from the file."""
        truth = parquet.value(self.path, self.row, "reward_model")["ground_truth"]
        prompt = self.prompt
        return records.read(
            prompt.id,
            self.statement,
            records.loads(truth),
            category=prompt.category,
            difficulty=prompt.difficulty,
            view=prompt.text,
        )


def read_stored(path: Path) -> Iterator[Stored]:
    """The problems of a parquet file that `metis prepare code` wrote."""
    for number, row in enumerate(parquet.rows(path, LIGHT)):
        yield Stored(_prompt(row["extra_info"]), row["prompt"][0]["content"], path, number)


def _prompt(about: dict[str, Any]) -> Prompt:
    level = difficulty(about.get("difficulty"))
    return Prompt(str(about["id"]), str(about["problem"]), written(about.get("category")), level)
