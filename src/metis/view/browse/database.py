"""The SQLite database of a shown folder: a cache, which may be deleted at any time.

It lies in the user's cache folder and never in the folder itself. One process has it at a time;
another one that shows the same folder has a database in memory.
"""

import contextlib
import hashlib
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import IO, Any

from metis import files
from metis.data.fetched import home
from metis.view.browse import counting

UNUSED = 30 * 24 * 3600.0
"""Seconds after which an index that nothing opened is deleted."""
TABLES = """
-- 3: version 1 left rows of gzipped logs out, 2 said of single answers that they had failed
CREATE TABLE about (name TEXT PRIMARY KEY, value);
CREATE TABLE files (name TEXT PRIMARY KEY, "end" INTEGER, rows INTEGER, digest TEXT);
CREATE TABLE metrics (file TEXT, step INTEGER, body TEXT);
CREATE TABLE timings (file TEXT, step INTEGER, body TEXT);
CREATE TABLE evals (file TEXT, step INTEGER, prompt TEXT, reward REAL);
CREATE TABLE exemplars (file TEXT, step INTEGER, body TEXT);
CREATE TABLE judgments (file TEXT, step INTEGER, prompt TEXT, chosen INTEGER, reason TEXT,
  score REAL, body TEXT);
CREATE TABLE groups (file TEXT, step INTEGER, prompt TEXT, mean REAL, outcome TEXT, body TEXT);
CREATE TABLE texts (file TEXT, prompt TEXT PRIMARY KEY, text TEXT, category TEXT, difficulty,
  trust INTEGER);
CREATE TABLE members (id INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT, segment INTEGER,
  start INTEGER, length INTEGER, kind TEXT, step INTEGER, prompt TEXT, body TEXT);
CREATE TABLE answers (id INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT, member INTEGER,
  place INTEGER, kind TEXT, step INTEGER, prompt TEXT, rollout INTEGER, category TEXT,
  outcome TEXT, reward REAL, tokens INTEGER, truncated INTEGER, failure TEXT, first INTEGER);
CREATE INDEX metrics_of ON metrics (step);
CREATE INDEX evals_of ON evals (prompt, step);
CREATE INDEX exemplars_of ON exemplars (step);
CREATE INDEX judgments_in ON judgments (step, prompt);
CREATE INDEX judgments_of ON judgments (prompt, step);
CREATE INDEX groups_in ON groups (step, prompt);
CREATE INDEX groups_of ON groups (prompt, step);
CREATE INDEX members_of ON members (kind, step, prompt);
CREATE INDEX answers_of ON answers (prompt, step);
CREATE INDEX answers_in ON answers (step, first, rollout);
"""
WORDS = """
CREATE VIRTUAL TABLE words USING fts5(
  text, content='', detail=none, tokenize='unicode61 remove_diacritics 0')
"""
ROWS = (
    *("metrics", "timings", "evals", "exemplars", "judgments", "groups"),
    *("texts", "members", "answers"),
)
"""Tables whose rows are of a file."""


REVISION = "SELECT value FROM about WHERE name IN ('made', 'changes') ORDER BY name"


class Database:
    """A connection that threads share, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.path = home() / "views" / f"{_name(self.folder)}.sqlite"
        self._lock = RLock()
        self._owned: IO[bytes] | None = None
        self._closed = False
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        """The database in the cache folder, or in memory if it cannot be there."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._owned = self._owned or files.lock(self.path.with_suffix(".lock"))
            _forget_unused(self.path.parent)
            return _opened(self.path, _identity(self.folder))
        except (OSError, sqlite3.Error):
            return _opened(None, _identity(self.folder))

    def rebuild(self, in_memory: bool = False) -> None:
        """Start over: the file is damaged, or cannot be written."""
        with self._lock:
            if self._closed:
                return
            self._connection.close()
            if self._owned is not None:
                _delete(self.path)
            identity = _identity(self.folder)
            self._connection = _opened(None, identity) if in_memory else self._open()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._connection.close()
            if self._owned is not None:
                self._owned.close()

    @property
    def searchable(self) -> bool:
        """True where there is an index of words: this SQLite has FTS5."""
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = 'words'"))

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    @property
    def revision(self) -> str:
        """A string that changes with the content."""
        return "-".join(str(value) for (value,) in self.rows(REVISION))

    def one(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first row; None where there is none."""
        with self._lock:
            return self._connection.execute(query, values).fetchone()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, rolled back on an error."""
        with self._lock, self._connection:
            self._connection.execute("BEGIN")
            yield self._connection


def clean(text: str) -> str:
    """Text that SQLite takes: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _name(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _identity(folder: Path) -> str:
    """A key of this folder (not another at its path) and of this table layout."""
    found, tables = folder.stat(), (TABLES + counting.TABLES + WORDS).encode()
    return f"{hashlib.sha256(tables).hexdigest()[:16]} {found.st_dev} {found.st_ino}"


def _opened(path: Path | None, identity: str) -> sqlite3.Connection:
    """A sound database of this identity; a damaged or foreign one is created anew."""
    if path is None:
        return _made(":memory:", identity)
    if path.exists():
        try:
            connection = _connect(str(path))
            found = connection.execute("SELECT value FROM about WHERE name = 'folder'").fetchone()
            sound = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found == (identity,) and sound == ("ok",):
                path.touch()
                return connection
            connection.close()
        except sqlite3.Error:
            pass
    _delete(path)
    return _made(str(path), identity)


def _connect(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    for setting in ("locking_mode = EXCLUSIVE", "synchronous = OFF", "cache_size = -65536"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _made(place: str, identity: str) -> sqlite3.Connection:
    connection = _connect(place)
    connection.executescript(TABLES + counting.TABLES)
    with contextlib.suppress(sqlite3.OperationalError):  # no FTS5 in this SQLite
        connection.execute(WORDS)
    about = [("folder", identity), ("made", secrets.token_hex(4)), ("changes", 0)]
    connection.executemany("INSERT INTO about VALUES (?, ?)", about)
    return connection


def _delete(path: Path) -> None:
    for suffix in ("", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _forget_unused(folder: Path) -> None:
    for path in folder.glob("*.sqlite"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED:
                _delete(path)
