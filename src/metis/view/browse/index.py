"""Fills the database of a folder from its logs and transcripts, also while they grow.

Every file is read on from where it was left. One that was cut short by a resume, or rewritten, is
read again from its start: a log, or a segment of 50 steps.
"""

import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from metis.errors import Damaged, MetisError
from metis.files import inside
from metis.run import transcripts
from metis.run.folder import GZIPPED, log_file
from metis.view.browse import counting, filling, growing
from metis.view.browse.database import ROWS, Database, clean
from metis.view.browse.filling import LOGS, Into
from metis.view.browse.growing import Mark, NewRow

FRESH = 0.5
"""Seconds for which the logs are not looked at again."""
LINES, MEMBERS = 500, 32
"""Rows of a log, and groups of a transcript, that are taken in at once."""
WRONG = (
    *(AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError),
    *(sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""Errors of rows that are not what their log has."""


class NewMember(NamedTuple):
    """A group of a transcript, and the bytes of its file up to its end."""

    end: int
    number: int
    member: transcripts.Member


New = NewRow | NewMember


class Index:
    """The database of a folder; `wrong` names the unreadable part of each damaged file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = Database(folder)
        self.words = self.database.searchable
        self.wrong: dict[str, str] = {}
        self.done = False
        """True where everything that was there at the last look is in the database."""
        self._looked = -math.inf
        self._updating = RLock()

    def update(self, seconds: float = math.inf, logs_only: bool = False) -> bool:
        """Index what is new for at most this long; True once all is indexed."""
        deadline = time.monotonic() + seconds
        with self._updating:
            try:
                done = self._update(deadline, logs_only)
            except sqlite3.DatabaseError:
                done = self._again(deadline, logs_only)
            self._looked = time.monotonic()
            self.done = done if not logs_only else self.done
            return done

    def _again(self, deadline: float, logs_only: bool) -> bool:
        """Start over with a new database; in memory if its disk is full."""
        self.rebuild()
        try:
            return self._update(deadline, logs_only)
        except sqlite3.DatabaseError:
            self.rebuild(in_memory=True)
            return self._update(deadline, logs_only)

    def refresh(self) -> None:
        """Index new log rows: all of them at first, later only if no other thread does."""
        if time.monotonic() - self._looked < FRESH:
            return
        if self._updating.acquire(blocking=self._looked == -math.inf):
            try:
                self.update(logs_only=True)
            finally:
                self._updating.release()

    @property
    def progress(self) -> dict[str, Any]:
        """The share of the folder that is indexed."""
        marks = self._marks()
        sizes = {name: path.stat().st_size for name, path in self._paths().items()}
        read = sum(mark.offset for name, mark in marks.items() if name in sizes)
        [members] = self.database.one("SELECT count(*) FROM members")
        return {"done": self.done, "members": members, "bytes": [read, sum(sizes.values())]}

    def rebuild(self, in_memory: bool = False) -> None:
        with self._updating:
            self.database.rebuild(in_memory)
            self.words = self.database.searchable

    def close(self) -> None:
        with self._updating:
            self.database.close()

    def _update(self, deadline: float, logs_only: bool) -> bool:
        present, seen = self._files(), self._marks()
        self._forget_changed(present, seen)
        for name, path in present.items():
            if logs_only and name.startswith(transcripts.FOLDER):
                continue
            if not self._extend(name, path, seen.get(name, Mark()), deadline):
                return False
        with self.database.writing() as write:
            counting.count(write)
        return True

    def _paths(self) -> dict[str, Path]:
        """Existing logs and transcripts, by name."""
        paths = [log_file(self.folder, log) for log in LOGS]
        paths += transcripts.segments(self.folder)
        return {path.relative_to(self.folder).as_posix(): path for path in paths if path.is_file()}

    def _files(self) -> dict[str, Path]:
        """The files without links that lead out of the folder, which are reported."""
        found, wrong = self._paths(), {}
        for name, path in list(found.items()):
            try:
                inside(self.folder, path)
            except Damaged as error:
                wrong[name] = error.what
                del found[name]
        self.wrong = wrong | {name: what for name, what in self.wrong.items() if name in found}
        return found

    def _marks(self) -> dict[str, Mark]:
        rows = self.database.rows('SELECT name, "end", rows, digest FROM files')
        return {name: Mark(*mark) for name, *mark in rows}

    def _forget_changed(self, present: dict[str, Path], seen: dict[str, Mark]) -> None:
        """Delete the rows of files that are gone or were rewritten."""
        changed = {name for name, mark in seen.items() if not _holds(present.get(name), mark)}
        if any(name.startswith(transcripts.FOLDER) for name in changed):
            changed |= {name for name in seen if name.startswith(("rollouts.", "answers."))}
        for name in changed:
            seen.pop(name)
            with self.database.writing() as write:
                for table in ROWS:
                    if table == "texts" and name.startswith(transcripts.FOLDER):
                        continue  # other segments may name the same prompt, and are not read again
                    write.execute(f"DELETE FROM {table} WHERE file = ?", (name,))
                write.execute("DELETE FROM files WHERE name = ?", (name,))
                counting.forget(write)

    def _extend(self, name: str, path: Path, seen: Mark, deadline: float) -> bool:
        """Continue reading a file; False if the time was up before its end."""
        transcript = path.parent != self.folder
        new = _members(path, seen) if transcript else _rows(path, seen)
        self.wrong.pop(name, None)
        try:
            for part in _parts(new, MEMBERS if transcript else LINES):
                self._take(name, path, part)
                if time.monotonic() > deadline:
                    return False
        except Damaged as error:
            self.wrong[name] = error.what
        except (MetisError, OSError) as error:
            self.wrong[name] = str(error)
        return True

    def _take(self, name: str, path: Path, part: Sequence[New]) -> None:
        """Insert rows and save how far the file is read, in one transaction."""
        done = 0
        try:
            with self.database.writing() as write:
                for each in part:
                    self._fill(Into(write, name, self.words), each)
                    done += 1
                last = part[-1]
                reached = growing.mark(path, last.end, last.number)
                write.execute("REPLACE INTO files VALUES (?, ?, ?, ?)", (name, *reached))
                write.execute("UPDATE about SET value = value + 1 WHERE name = 'changes'")
        except WRONG:
            if done:
                self._take(name, path, part[:done])
            what = f"{name}, line {part[done].number}"
            raise Damaged(f"{path}: {what}, is damaged", self.folder, what) from None

    def _fill(self, into: Into, new: New) -> None:
        if isinstance(new, NewMember):
            filling.transcript(into, new.member)
            return
        log = into.file.partition(".")[0]
        if log in ("rollouts", "answers"):
            into = into._replace(transcribed=self._transcribed(log, new.row))
        LOGS[log](into, new.row, clean(new.line.decode("utf-8", "replace")))

    def _transcribed(self, log: str, row: Mapping[str, Any]) -> bool:
        """True where the answers of a row are in a transcript."""
        kind, step = ("train", row["step"]) if log == "rollouts" else ("eval", 0)
        return (self.folder / transcripts.FOLDER / transcripts.file_name(kind, step)).exists()


def _holds(path: Path | None, seen: Mark) -> bool:
    """True if a file still has what was read of it; a gzipped log is read whole or not at all."""
    if path is None:
        return False
    whole = path.suffix == GZIPPED and path.parent.name != transcripts.FOLDER
    return growing.holds(path, seen) and (not whole or seen.offset in (0, path.stat().st_size))


def _rows(path: Path, seen: Mark) -> Iterator[New]:
    return growing.new_rows(path, path.name.partition(".")[0], seen)


def _members(path: Path, seen: Mark) -> Iterator[New]:
    found = transcripts.segment_members(path, seen.offset)
    for number, member in enumerate(found, start=seen.rows + 1):
        yield NewMember(member.place.offset + member.place.length, number, member)


def _parts(new: Iterator[New], size: int) -> Iterator[list[New]]:
    """Batches of an iterator; items before an error are still yielded."""
    part: list[New] = []
    try:
        for each in new:
            part.append(each)
            if len(part) == size:
                yield part
                part = []
    except (MetisError, OSError):
        if part:
            yield part
        raise
    if part:
        yield part
