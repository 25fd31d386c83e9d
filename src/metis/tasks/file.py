"""Bring your own problems: a table with a question and an answer in every row.

An answer is right when it equals the reference: as the text of the last box, as the last number, or
as the whole reply. Blanks, dollar signs and a final full stop do not matter.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from metis.boxes import last_box
from metis.core import Message, Prompt
from metis.errors import MetisError, require, require_at_least
from metis.prepare import table
from metis.tasks.base import SingleTurn, last_number


@dataclass(frozen=True)
class File:
    """The knobs of a task from a file.

    path         the file: .jsonl, .jsonl.gz or .parquet
    question     the field that holds the problem; `a.b` is the field b in the field a
    answer       the field that holds the reference answer
    category     the field that holds a category; empty is none
    heldout      rows to test on, drawn by the seed; none of them is trained on
    match        compare the last `box`, the last `number`, or the whole reply (`text`)
    instruction  what follows the question
    """

    path: str = ""
    question: str = "problem"
    answer: str = "answer"
    category: str = ""
    heldout: int = 200
    match: Literal["box", "number", "text"] = "box"
    instruction: str = "Please reason step by step, and put your final answer within \\boxed{}."

    def __post_init__(self) -> None:
        require_at_least(self, {"heldout": 1}, "task.")
        require(
            bool(self.path), "task.path", self.path, "name a .jsonl, .jsonl.gz or .parquet file"
        )


class FileTask:
    """The rows of a file, split into those to train and those to test on."""

    rewards: Literal["binary"] = "binary"

    def __init__(self, settings: File, seed: int) -> None:
        self.settings = settings
        self.answers: dict[str, str] = {}
        rows = enumerate(read_rows(settings.path, "task.path"), start=1)
        prompts = [self._prompt(number, row) for number, row in rows]
        if len(prompts) <= settings.heldout:
            raise MetisError(
                f"task.heldout = {settings.heldout}: {settings.path} has only {len(prompts)} rows"
            )
        random.Random(seed).shuffle(prompts)
        self._heldout, self._training = prompts[: settings.heldout], prompts[settings.heldout :]

    def _prompt(self, number: int, row: dict[str, Any]) -> Prompt:
        settings = self.settings
        for key in (settings.question, settings.answer):
            if table.field(row, key) is None:
                raise MetisError(
                    f"{settings.path}, row {number}: no field {key!r}, only {', '.join(row)}; set "
                    "task.question and task.answer"
                )
        name = f"{Path(settings.path).name.split('.')[0]}:{row.get('id', number)}"
        self.answers[name] = str(table.field(row, settings.answer))
        category = table.field(row, settings.category)
        return Prompt(
            name,
            str(table.field(row, settings.question)),
            "" if category is None else str(category),
        )

    def training(self) -> Sequence[Prompt]:
        return self._training

    def heldout(self) -> Sequence[Prompt]:
        return self._heldout

    def episode(self, prompt: Prompt) -> SingleTurn:
        text = f"{prompt.text}\n{self.settings.instruction}".strip()
        chat: list[Message] = [{"role": "user", "content": text}]
        reference, same = self.answers[prompt.id], MATCHES[self.settings.match]
        return SingleTurn(chat, lambda reply: float(same(reply, reference)))


def read_rows(path: str, key: str) -> Iterator[dict[str, Any]]:
    """The rows of the table that a setting names; what is wrong with it is said of its key."""
    try:
        yield from table.rows(Path(path))
    except MetisError as error:
        raise MetisError(f"{key} = {error}") from None


def _plain(text: str) -> str:
    return "".join(text.split()).replace("$", "").removesuffix(".")


def _same_box(reply: str, reference: str) -> bool:
    content = last_box(reply)
    return content is not None and _plain(content) == _plain(reference)


def _same_number(reply: str, reference: str) -> bool:
    value = last_number(reply)
    return value is not None and value == last_number(reference)


MATCHES: dict[str, Callable[[str, str], bool]] = {
    "box": _same_box,
    "number": _same_number,
    "text": lambda reply, reference: _plain(reply) == _plain(reference),
}


def build(settings: File, seed: int) -> FileTask:
    """The task for a run's seed."""
    return FileTask(settings, seed)
