"""The transcripts of a folder as JSONL: a row per rollout, with its messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metis import files
from metis.errors import MetisError
from metis.files import require_new_file, writing
from metis.run.transcripts import FOLDER, Member, as_damage, members, segments

Row = dict[str, Any]

_OF_GROUP = ("step", "prompt", "category", "benchmark")
_OF_ROLLOUT = (
    *("rollout", "reward", "score", "parts", "tokens", "truncated", "failure"),
    "trained",
)


def write_messages(folder: Path, target: Path) -> int:
    """Write the rows to a file that is not there yet, whole or not at all; returns their number."""
    require_transcripts(folder)
    require_new_file(target)
    count = 0
    with writing(target), files.atomic(target) as file:
        for member in members(folder):
            with as_damage(folder, member.place):
                lines = [encoded(row) + b"\n" for row in rows(member)]
            file.writelines(lines)
            count += len(lines)
    return count


def require_transcripts(folder: Path) -> None:
    """Refuse a folder in which nothing that was said is kept."""
    if not segments(folder):
        raise MetisError(
            f"{str(folder)!r} has no {FOLDER}: name the folder of a run, a survey or an "
            "evaluation; with transcripts=none none are kept, nor were they by earlier versions"
        )


def rows(member: Member) -> Iterator[Row]:
    """A row per rollout of a group; all rows have the same names, null where there is no value."""
    head = member.head
    for row in member.rows:
        yield {
            "kind": member.place.kind,
            **{name: head.get(name) for name in _OF_GROUP},
            **{name: row.get(name) for name in _OF_ROLLOUT},
            "messages": [*asked(head, row), *row["messages"]],
        }


def asked(head: Row, row: Row) -> list[Row]:
    """The messages before a rollout's first answer."""
    chat: list[Row] = row["asked"] if "asked" in row else head["messages"]
    return chat


def encoded(content: Any) -> bytes:
    """JSON as UTF-8, which half a surrogate pair is not: it becomes a question mark."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
