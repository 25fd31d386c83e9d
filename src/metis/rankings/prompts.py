"""A file of prompts, read row by row: a longer file takes no more memory."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from metis.tasks.base import ProblemRow, ReadRow
from metis.tasks.file import read_rows
from metis.tasks.left_out import LeftOut


class Numbered(NamedTuple):
    """A row that can be ranked: its number in the file, from 1, its problem, and its fields."""

    number: int
    row: ProblemRow
    fields: dict[str, Any]


class Scan(NamedTuple):
    """A pass over a file: how many prompts can be ranked, a random sample of them, and notices."""

    prompts: int
    sample: list[Numbered]
    notices: tuple[str, ...]


@dataclass(frozen=True)
class PromptFile:
    """The prompts of a file, as a task reads them."""

    path: Path
    read: ReadRow

    def rows(self, left_out: LeftOut | None = None) -> Iterator[Numbered]:
        """The rows that have a problem, and an answer where the reward needs one."""
        counted = left_out or LeftOut(str(self.path))
        for number, fields in enumerate(read_rows(str(self.path), "PROMPTS"), start=1):
            row = self.read(number, fields)
            if not counted.drops(row.prompt.text, row.answer, None):
                yield Numbered(number, row, fields)

    def scan(self, count: int, seed: object) -> Scan:
        """Count the prompts, and draw `count` of different text uniformly."""
        draw, left_out = random.Random(f"{seed}/calibration"), LeftOut(str(self.path))
        sample: list[Numbered] = []
        texts: set[str] = set()
        total = 0
        for total, each in enumerate(self.rows(left_out), start=1):
            place = len(sample) if len(sample) < count else draw.randrange(total)
            if place >= count or each.row.prompt.text in texts:
                continue
            if place < len(sample):
                texts.remove(sample[place].row.prompt.text)
                sample[place] = each
            else:
                sample.append(each)
            texts.add(each.row.prompt.text)
        sample.sort(key=lambda each: each.number)
        return Scan(total, sample, tuple(left_out.notices()))

    def texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """The texts of some rows."""
        wanted = set(numbers)
        found: dict[int, str] = {}
        for each in self.rows() if wanted else ():
            if each.number in wanted:
                found[each.number] = each.row.prompt.text
                if len(found) == len(wanted):
                    break
        return found


def write_rows(path: Path, rows: Iterable[Numbered]) -> None:
    """Write rows as JSON lines; each keeps the id that it has in its own file."""
    with path.open("w", encoding="utf-8") as file:
        for each in rows:
            name = str(each.fields.get("id") or "").strip() or str(each.number)
            file.write(json.dumps({**each.fields, "id": name}, default=str) + "\n")
