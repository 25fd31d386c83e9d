"""The folders that `metis view` shows: kind, label and progress."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from metis.comparisons.comparison import is_comparison
from metis.comparisons.ending import account
from metis.diagnosis import DiagnosisLine, lines
from metis.errors import Damaged, MetisError
from metis.files import inside
from metis.run.folder import log_file, read_log
from metis.run.manifest import current
from metis.run.recorded import Recorded, unique_labels
from metis.run.transcripts import segments
from metis.view.browse.answers import Answers
from metis.view.browse.index import Index
from metis.view.browse.prompts import Prompts

LIVE = 120.0
"""Seconds for which a run whose logs grew is said to be running, where no lock can tell."""

KINDS = {"outcomes": "survey", "answers": "eval"}
"""The log that only one kind of folder has."""
ENDS = {"survey": "survey.md", "eval": "results.json"}
"""The file that is written last."""


class Opened:
    """An open run, survey or evaluation, with its index."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, self.label = folder, kind, folder.resolve().name
        self.asked = 0.0
        """When something of it was asked for last."""
        self._locked = False
        self._last: tuple[Any, list[Any]] = (None, [])
        self._diagnosed: tuple[Any, list[DiagnosisLine]] = (None, [])

    @cached_property
    def index(self) -> Index:
        return Index(self.folder)

    @cached_property
    def answers(self) -> Answers:
        return Answers(self.folder, self.index.database)

    @cached_property
    def prompts(self) -> Prompts:
        return Prompts(self.index.database)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """`config.json`."""
        try:
            found = json.loads(inside(self.folder, self.folder / "config.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return current(found) if isinstance(found, dict) else {}

    @property
    def state(self) -> str:
        """`finished`, `running` or `stopped`."""
        if self._finished():
            return "finished"
        held = _locked(self.folder / ".lock")
        self._locked = self._locked or held
        return "running" if held or (not self._locked and self._grew()) else "stopped"

    def _finished(self) -> bool:
        if self.kind in ENDS:
            return (self.folder / ENDS[self.kind]).is_file()
        try:
            return account(self._reached()).fraction >= 1
        except (MetisError, OSError):
            return False

    def _reached(self) -> Recorded:
        """The run up to its last step, by its own log: the index may not have come to it."""
        metrics = inside(self.folder, log_file(self.folder, "metrics"))
        found = metrics.stat()
        if self._last[0] != (found.st_size, found.st_mtime_ns):
            timed = inside(self.folder, log_file(self.folder, "timings")).is_file()
            rows = [read_log(self.folder, "metrics")[-1:], []]
            if timed and self.settings.get("seconds"):
                rows[1] = read_log(self.folder, "timings")[-1:]
            self._last = (found.st_size, found.st_mtime_ns), rows
        return Recorded(self.folder, self.settings, {}, *self._last[1])

    @property
    def run(self) -> Recorded:
        """The run by its settings, metrics and times."""
        metrics, timings = (
            [json.loads(body) for (body,) in self.index.database.rows(query)]
            for query in (
                "SELECT body FROM metrics ORDER BY step",
                "SELECT body FROM timings ORDER BY step",
            )
        )
        return Recorded(self.folder, self.settings, {}, metrics, timings, self.label)

    def diagnosis(self, run: Recorded) -> list[DiagnosisLine]:
        """The diagnosis of a run, renewed with every step."""
        revision = self.index.database.one("SELECT count(*), max(rowid) FROM metrics")
        if self.kind != "run" or revision == self._diagnosed[0]:
            return self._diagnosed[1]
        found: list[DiagnosisLine] = []
        with contextlib.suppress(MetisError):
            for path in (*self.folder.iterdir(), *segments(self.folder)):
                inside(self.folder, path)
            found = lines(run)
        self._diagnosed = revision, found
        return found

    def _grew(self) -> bool:
        """True where a log was written to just now."""
        logs = (log_file(self.folder, log) for log in ("metrics", "outcomes", "answers"))
        times = [log.stat().st_mtime for log in logs if log.is_file()]
        return bool(times) and time.time() - max(times) < LIVE

    @property
    def wrong(self) -> str | None:
        """The unreadable files, or None."""
        said = [f"{what}, is damaged or leads out" for what in self.index.wrong.values()]
        return "; ".join(said) or None

    def close(self) -> None:
        self.index.close()


class OpenedComparison:
    """A comparison, whose runs are folders of their own, each with a number."""

    kind = "comparison"

    def __init__(self, folder: Path, runs: dict[int, Opened]) -> None:
        self.folder, self.runs, self.label = folder, runs, folder.resolve().name

    @property
    def state(self) -> str:
        states = {run.state for run in self.runs.values()}
        return next((each for each in ("running", "stopped") if each in states), "finished")

    @property
    def wrong(self) -> str | None:
        return None

    def close(self) -> None:
        """Nothing is open but its runs."""


def open_folders(folders: Sequence[Path]) -> list[Opened | OpenedComparison]:
    """Open folders, each once; the runs of a comparison come after it."""
    opened: list[Opened | OpenedComparison] = []
    known: dict[Path, tuple[int, Opened]] = {}

    def number(run: Opened) -> tuple[int, Opened]:
        """A run with its number: the one that is open already, if it is."""
        place, there = known.setdefault(run.folder.resolve(), (len(opened), run))
        if there is run:
            opened.append(run)
        return place, there

    for folder in {folder.resolve(): folder for folder in folders}.values():
        if is_comparison(folder):
            runs = list(_runs(folder))
            comparison = OpenedComparison(folder, {})
            opened.append(comparison)
            comparison.runs.update(map(number, runs))
        else:
            number(Opened(folder, _kind(folder)))
    _label(opened)
    return opened


def _kind(folder: Path) -> str:
    """The kind of a folder; one that cannot be shown is refused."""
    if not folder.is_dir():
        what = "a file" if folder.exists() else "there is no such folder"
        raise MetisError(f"run {str(folder)!r}: {what}: name a run folder")
    if not (folder / "config.json").is_file():
        raise MetisError(
            f"run {str(folder)!r} has no config.json: name the folder of a run, a survey, an "
            "evaluation or a comparison"
        )
    logs = (kind for log, kind in KINDS.items() if log_file(folder, log).exists())
    return next(logs, "run")


def _runs(comparison: Path) -> Iterator[Opened]:
    """The run folders of a comparison; one without runs is refused."""
    found = False
    for config in sorted(comparison.glob("*/config.json")):
        with contextlib.suppress(Damaged):
            yield Opened(inside(comparison, config.parent), "run")
            found = True
    if not found:
        raise MetisError(
            f"{str(comparison)!r} has no runs that can be read: `metis compare` trains"
        )


def _label(opened: Sequence[Opened | OpenedComparison]) -> None:
    """Give runs names that tell them apart: folder, curriculum and seed, in this order."""
    runs = [each for each in opened if isinstance(each, Opened) and each.kind == "run"]
    records = [Recorded(each.folder, each.settings, {}, [], []) for each in runs]
    for run, record, label in zip(runs, records, unique_labels(records), strict=True):
        [alone] = unique_labels([record])
        place = label.removeprefix(alone).removeprefix(" · ") or run.folder.resolve().name
        run.label = f"{place} · {alone}"


def _locked(path: Path) -> bool:
    """True where a process of this machine holds the lock of a folder; it is not asked for."""
    with contextlib.suppress(OSError):
        inode = str(path.stat().st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            if line.split()[5].rpartition(":")[2] == inode:
                return True
    return False
