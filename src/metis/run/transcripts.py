"""Transcripts: the messages of every rollout, validation answer, survey answer and judgment.

`FOLDER/transcripts/KIND-NNNNN.jsonl.gz` has the groups of 50 steps, from step NNNNN on. A group is
one gzip member: a line of JSON with its prompt, then a line per rollout. Members are written in one
call each, so that a file can be cut to an earlier length, and whoever is killed while writing
leaves at most the last one incomplete.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from metis import files
from metis.errors import Damaged, MetisError
from metis.run.manifest import SCHEMA

FOLDER = "transcripts"
KINDS = ("train", "judge", "eval", "survey")
SEGMENT = 50
"""Steps per file."""

_CHUNK = 1 << 16
_GZIP = 16 + zlib.MAX_WBITS
_NAME = re.compile(rf"({'|'.join(KINDS)})-(\d{{5,}})\.jsonl\.gz")

Row = dict[str, Any]


class Place(NamedTuple):
    """The place of a member: its file's kind and first step, and its bytes there."""

    kind: str
    segment: int
    offset: int
    length: int


class Member(NamedTuple):
    """One group: `head` has its prompt, `rows` one rollout each."""

    place: Place
    head: Row
    rows: list[Row]


def examples(asked: Sequence[Mapping[str, Any]]) -> int:
    """How many turns of a prompt come before its last question: a system turn and examples."""
    users = [place for place, message in enumerate(asked) if message.get("role") == "user"]
    return users[-1] if users else 0


def file_name(kind: str, step: int) -> str:
    """The name of the file with a step's groups."""
    return f"{kind}-{step // SEGMENT * SEGMENT:05d}.jsonl.gz"


def packed(head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A group as a gzip member; equal groups are equal bytes."""
    lines = [json.dumps(row, allow_nan=False) for row in ({"schema": SCHEMA, **head}, *rows)]
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    return packer.compress("".join(f"{line}\n" for line in lines).encode()) + packer.flush()


class Transcripts:
    """Appends groups to the files of a folder, which one process at a time may do."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER
        self._sampled: set[str] = set()
        """Files known to have one rollout per group."""

    def append(self, kind: str, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a group to the file of its step."""
        self.path.mkdir(exist_ok=True)
        left = memoryview(packed(head, rows))
        with (self.path / file_name(kind, head["step"])).open("ab", buffering=0) as file:
            while left:
                left = left[file.write(left) :]

    def sync(self) -> None:
        """Wait until everything written is on disk."""
        for file in segments(self.path.parent):
            files.sync(file)
        if self.path.exists():
            files.sync(self.path)

    def cut(self, step: int, kind: str | None = None) -> None:
        """Remove the groups of later steps, of one kind or of all."""
        for file in segments(self.path.parent, kind):
            if _segment(file) + SEGMENT > step:
                _cut(file, lambda head: bool(head["step"] <= step))

    def thin(self, limit: float, step: int) -> tuple[int, int]:
        """Shrink all files to so many bytes together; those that a step writes to are left alone.

        Of the oldest one rollout per group is kept first; if that is not enough, they are deleted.
        Returns the last steps that this was done to, 0 where it was done to none.
        """
        old: dict[int, list[Path]] = {}
        for file in segments(self.path.parent):
            if _segment(file) + SEGMENT <= step:
                old.setdefault(_segment(file), []).append(file)
        sampled = self._each(old, limit, self._sample)
        deleted = self._each(old, limit, _delete)
        return sampled, deleted

    def _each(
        self,
        old: Mapping[int, list[Path]],
        limit: float,
        shrink: Callable[[list[Path]], Sequence[Path]],
    ) -> int:
        """Shrink segments, the oldest first, while over the limit; returns their last step."""
        last = 0
        for first in sorted(old):
            if sum(file.stat().st_size for file in segments(self.path.parent)) <= limit:
                break
            if shrink(old[first]):
                last = first + SEGMENT - 1
        return last

    def _sample(self, old: Sequence[Path]) -> list[Path]:
        """Keep one rollout per group; returns the files of which this was not known."""
        new = [file for file in old if file.name not in self._sampled]
        for file in new:
            _sample(file)
            self._sampled.add(file.name)
        return new

    def keep(self, kind: str, known: Callable[[Row], bool]) -> None:
        """Remove all groups of a kind from the first on whose head is not known."""
        for file in segments(self.path.parent, kind):
            _cut(file, known)


def _cut(file: Path, kept: Callable[[Row], bool]) -> None:
    """Truncate a file at its first group that is not kept, or is damaged."""
    length = 0
    with suppress(Damaged):
        for start, end, text in _members(file, 0):
            if not kept(_rows(file, start, text)[0]):
                break
            length = end
    if not length:
        file.unlink()
    elif length < file.stat().st_size:
        os.truncate(file, length)


def _delete(old: Sequence[Path]) -> Sequence[Path]:
    for file in old:
        file.unlink()
    return old


def _sample(file: Path) -> None:
    """Keep one rollout per group, atomically."""
    with files.atomic(file) as thinned, suppress(Damaged):
        for start, _, text in _members(file, 0):
            head, *rows = _rows(file, start, text)
            thinned.write(packed(head, rows[:1]))


def segments(folder: Path, kind: str | None = None) -> list[Path]:
    """The files of a folder, of one kind or of all, by kind and step."""
    found = [
        (KINDS.index(match[1]), int(match[2]), file)
        for file in (folder / FOLDER).glob("*.jsonl.gz")
        if (match := _NAME.fullmatch(file.name)) and kind in (None, match[1])
    ]
    return [file for _, _, file in sorted(found)]


def members(
    folder: Path, kind: str | None = None, after: Mapping[str, int] = {}
) -> Iterator[Member]:
    """The groups in the order of the files, from the offset that `after` has for a file's name.

    An incomplete last member is skipped: it is being written, or its writer was killed.
    """
    for file in segments(folder, kind):
        yield from segment_members(file, after.get(file.name, 0))


def segment_members(file: Path, start: int = 0) -> Iterator[Member]:
    """The groups of one file, from an offset on."""
    name = file.name.split("-")[0]
    for offset, end, text in _members(file, start):
        yield _member(file, Place(name, _segment(file), offset, end - offset), text)


def read(folder: Path, place: Place) -> Member:
    """The group at a place."""
    file = folder / FOLDER / file_name(place.kind, place.segment)
    try:
        with file.open("rb") as opened:
            opened.seek(place.offset)
            content = opened.read(place.length)
    except OSError as error:
        raise MetisError(f"{str(file)!r} cannot be read ({error.strerror}): mend that") from None
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(content)
    except zlib.error:
        raise _damaged(file, place.offset) from None
    if not unpacker.eof:
        raise _damaged(file, place.offset)
    return _member(file, place, text)


def _members(file: Path, start: int) -> Iterator[tuple[int, int, bytes]]:
    """Start, end and text of every complete member from an offset on."""
    with file.open("rb") as opened:
        opened.seek(start)
        content, end = opened.read(_CHUNK), start
        while content:
            unpacker = zlib.decompressobj(_GZIP)
            pieces = []
            while content and not unpacker.eof:
                try:
                    pieces.append(unpacker.decompress(content))
                except zlib.error:
                    raise _damaged(file, start) from None
                end += len(content) - len(unpacker.unused_data)
                content = unpacker.unused_data or opened.read(_CHUNK)
            if unpacker.eof:
                yield start, end, b"".join(pieces)
            start = end


@contextmanager
def as_damage(folder: Path, place: Place) -> Iterator[None]:
    """While a group is read: fields that are missing or of another kind are damage."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError):
        file = folder / FOLDER / file_name(place.kind, place.segment)
        raise _damaged(file, place.offset) from None


def _member(file: Path, place: Place, text: bytes) -> Member:
    head, *rows = _rows(file, place.offset, text)
    return Member(place, head, rows)


def _rows(file: Path, offset: int, text: bytes) -> list[Row]:
    try:
        rows = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        raise _damaged(file, offset) from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise _damaged(file, offset)
    return rows


def _segment(file: Path) -> int:
    match = _NAME.fullmatch(file.name)
    assert match is not None
    return int(match[2])


def _damaged(file: Path, offset: int) -> Damaged:
    folder, what = file.parent.parent, f"{FOLDER}/{file.name}, byte {offset}"
    return Damaged(f"{folder / what}, is damaged: restore the file, or delete it", folder, what)
