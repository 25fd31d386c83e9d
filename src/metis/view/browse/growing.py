"""New rows of a file that grows, beyond a mark of how far it was read."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from metis.run.folder import GZIPPED, log_lines, parse_row

ENDS = 64
"""Bytes at the start and at the end of what was read that tell it from other contents."""


class Mark(NamedTuple):
    """The part of a file that was read: bytes, rows, and a digest of the ends of these bytes."""

    offset: int = 0
    rows: int = 0
    check: str = ""


class NewRow(NamedTuple):
    """A row of a log, its line and that line's number; and the bytes of the log up to its end."""

    end: int
    number: int
    line: bytes
    row: dict[str, Any]


def mark(path: Path, offset: int, rows: int) -> Mark:
    """The mark of a file that was read up to an offset."""
    with path.open("rb") as file:
        head = file.read(min(ENDS, offset))
        file.seek(max(0, offset - ENDS))
        tail = file.read(min(ENDS, offset))
    return Mark(offset, rows, hashlib.sha256(head + tail).hexdigest())


def holds(path: Path, seen: Mark) -> bool:
    """True if the file still starts with what was read: not truncated, not rewritten."""
    return path.stat().st_size >= seen.offset and mark(path, seen.offset, seen.rows) == seen


def new_rows(path: Path, log: str, seen: Mark) -> Iterator[NewRow]:
    """The rows of a log beyond a mark; a last line without its end is left for later."""
    if path.suffix == GZIPPED:  # its rows say how far it was read; its last one has its size
        last = None
        for number, line in () if seen.offset else enumerate(log_lines(path), start=1):
            if number > seen.rows:
                if last is not None:
                    yield last
                last = NewRow(0, number, line, parse_row(path, number, line, log))
        if last is not None:
            yield last._replace(end=path.stat().st_size)
        return
    end, number = seen.offset, seen.rows
    with path.open("rb") as file:
        file.seek(end)
        for line in file:
            if not line.endswith(b"\n"):
                return
            end, number = end + len(line), number + 1
            yield NewRow(end, number, line, parse_row(path, number, line, log))
