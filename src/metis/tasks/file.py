"""Bring your own problems: a table with a question and an answer in every row.

An answer is right when it equals the reference: as the text of the last box, as the last number, or
as the whole reply. Blanks, dollar signs and a final full stop do not matter. A reward function of
one's own may score it instead.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from metis.core import Message, Prompt
from metis.core.pool import Rewards
from metis.data import table
from metis.data.problems import written
from metis.errors import MetisError, require, require_at_least
from metis.tasks.base import ProblemRow, ReadRow, SingleTurn, Split, last_number
from metis.tasks.division import remedy, usual
from metis.tasks.left_out import LeftOut
from metis.tasks.rewards import Asked, OwnReward
from metis.text import last_box


@dataclass(frozen=True)
class File:
    """Settings of a task from a file.

    path         the file: .jsonl, .jsonl.gz or .parquet
    problem      the field that holds the problem; `a.b` is the field b in the field a
    answer       the field that holds the reference answer; empty is none, for your own reward
    category     the field that holds a category; empty is none
    heldout      number of held-out problems, drawn by the seed; null is a fifth, at most 200;
                 `benchmarks` validates on other files instead
    match        compare the last `box`, the last `number`, or the whole reply (`text`)
    reward       your own reward function instead: package.module:name or path/to/file.py:name
    rewards      `binary` are 0 or 1, `continuous` in between; `auto` is continuous with `reward`
    instruction  text after the problem
    """

    path: str = ""
    problem: str = "problem"
    answer: str = "answer"
    category: str = ""
    heldout: int | None = None
    match: Literal["box", "number", "text"] = "box"
    reward: str = ""
    rewards: Literal["auto", "binary", "continuous"] = "auto"
    instruction: str = "Please reason step by step, and put your final answer within \\boxed{}."

    def __post_init__(self) -> None:
        if self.heldout is not None:
            require_at_least(self, {"heldout": 1}, "task.")
        require(
            bool(self.path), "task.path", self.path, "name a .jsonl, .jsonl.gz or .parquet file"
        )


class FileRows:
    """Reads the rows of a file as problems."""

    def __init__(self, settings: File) -> None:
        self.settings = settings
        self.reward = OwnReward(settings.reward) if settings.reward else None

    @property
    def answered(self) -> bool:
        """True where every problem needs a reference answer."""
        if self.reward is None:
            return True
        return bool(self.settings.answer) and self.reward.needs_reference

    def read(self, number: int, row: dict[str, Any]) -> tuple[Prompt, Asked]:
        """A problem, and what it is scored with; empty where the row has none."""
        settings = self.settings
        for key in (settings.problem, *([settings.answer] if self.answered else [])):
            if table.field(row, key, missing=row) is row:
                none = " (empty for none)" if self.reward else ""
                raise MetisError(
                    f"{settings.path}, row {number}: no field {key!r}, only {', '.join(row)}; set "
                    f"task.problem and task.answer{none}"
                )
        text, category = (
            written(table.field(row, key)) for key in (settings.problem, settings.category)
        )
        truth = table.field(row, settings.answer, missing="")
        source = Path(settings.path).name.split(".")[0]
        prompt = Prompt(f"{source}:{written(row.get('id')) or number}", text, category)
        chat: list[Message] = [
            {"role": "user", "content": f"{text}\n{settings.instruction}".strip()}
        ]
        kept = row if self.reward else {}
        return prompt, Asked(chat, kept, truth, written(truth), source)

    def __call__(self, number: int, row: dict[str, Any]) -> ProblemRow:
        prompt, asked = self.read(number, row)
        return ProblemRow(prompt, asked.chat, asked.reference if self.answered else None)


class FileTask(Split):
    """The problems of a file without repeated texts, split into training and held-out ones."""

    def __init__(self, settings: File, seed: int | None, key: str = "task.path") -> None:
        """Without a seed all problems are held out; `key` is the setting that names the file."""
        reader = FileRows(settings)
        self.reward = reader.reward
        automatic: Rewards = "continuous" if self.reward else "binary"
        self.rewards: Rewards = automatic if settings.rewards == "auto" else settings.rewards
        self.settings = replace(settings, rewards=self.rewards)
        self.asked: dict[str, Asked] = {}
        by_text: dict[str, Prompt] = {}
        left_out = LeftOut(settings.path)
        for number, row in enumerate(read_rows(settings.path, key), start=1):
            prompt, asked = reader.read(number, row)
            first = by_text.get(prompt.text)
            before = None if first is None else self.asked[first.id].reference
            answer = asked.reference if reader.answered else None
            if left_out.drops(prompt.text, answer, before):
                continue
            if prompt.id in self.asked:
                raise MetisError(
                    f"{settings.path}, row {number}: a second {prompt.id!r}; ids must differ"
                )
            if self.reward and not by_text:
                self.reward.check(asked)
            by_text[prompt.text], self.asked[prompt.id] = prompt, asked
        self.notices = list(left_out.notices())
        prompts = list(by_text.values())
        self._heldout, self._training = prompts, []
        if seed is None:
            return
        count = usual(len(prompts)) if settings.heldout is None else settings.heldout
        self.settings = replace(self.settings, heldout=count)
        if len(prompts) <= count:
            raise MetisError(
                f"task.heldout = {count}: {settings.path} has only {len(prompts)} different "
                f"problems{' with an answer' if reader.answered else ''}{remedy(len(prompts))}"
            )
        random.Random(seed).shuffle(prompts)
        self._heldout, self._training = prompts[:count], prompts[count:]

    @property
    def scorer(self) -> str:
        if self.reward is not None:
            return self.reward.name
        return (
            f"{COMPARED[self.settings.match]} equals the answer (task.match={self.settings.match})"
        )

    def episode(self, prompt: Prompt) -> SingleTurn:
        asked, own = self.asked[prompt.id], self.reward
        if own is not None:
            return SingleTurn(
                asked.chat, lambda reply: own(reply, asked), asked.reference, scorer=own.name
            )
        same = MATCHES[self.settings.match]
        return SingleTurn(
            asked.chat, lambda reply: float(same(reply, asked.reference)), asked.reference
        )


def read_rows(path: str, key: str, columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The rows of the table that a setting names; what is wrong with it is said of its key.

    Of parquet, some columns are all that is read.
    """
    empty = True
    try:
        for row in table.rows(Path(path), columns):
            empty = False
            yield row
    except MetisError as error:
        raise type(error)(f"{key} = {error}") from None
    if empty:
        raise MetisError(f"{key} = {path!r} is empty: name another file")


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

COMPARED = {"box": "the last box", "number": "the last number", "text": "the whole reply"}


def build(settings: File, seed: int) -> FileTask:
    """The task for a run's seed."""
    return FileTask(settings, seed)


def rows(settings: File) -> ReadRow:
    """Reads the rows of the file one by one."""
    return FileRows(settings)


def read(settings: File, path: str, key: str) -> FileTask:
    """All problems of another file, held out, asked and scored by the settings."""
    return FileTask(replace(settings, path=path), None, key)
