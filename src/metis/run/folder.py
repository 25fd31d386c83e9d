"""The run folder: what a run was, what it did, and from where it goes on.

`config.json` and `versions.json` say what ran; `metrics.jsonl` is deterministic, `timings.jsonl`
has the clock; `judgments.jsonl`, `exemplars.jsonl` and `rollouts.jsonl` say why prompts were
chosen, what the judge was shown and what came of it; `evals.jsonl` has the reward of every held-out
prompt, `notices.jsonl` what the run said on the way; `checkpoints/step-N` resumes. It holds the
length of every log, so that a run that was killed goes on as if it had not been: the logs are cut
back to the checkpoint and written again. A run may be read with its logs gzipped
(`metrics.jsonl.gz`), but does not go on with them; of a log in both forms the plain one counts,
which is what a run writes.
`checkpoints/best` is the one that tested best, if any did better than the model at the start.
"""

import contextlib
import gzip
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from metis import files
from metis.core import state
from metis.errors import Damaged, MetisError, require_folder
from metis.run import manifest
from metis.run.manifest import SCHEMA

LOGS = ("metrics", "timings", "judgments", "exemplars", "rollouts", "evals", "notices")
GZIPPED = ".gz"


class Folder:
    """An open folder of logs that says what they are of; one process at a time may hold it."""

    LOGS: ClassVar[tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changes: list[manifest.Change] = []
        """Settings that are others than when the folder was last open."""
        self._lock = hold(path)
        for draft in (*path.glob(".*.draft"), *path.glob("checkpoints/.*.draft")):
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
        self._files = {log: (path / f"{log}.jsonl").open("ab", buffering=0) for log in self.LOGS}

    @classmethod
    def open(
        cls,
        path: Path,
        config: Mapping[str, Any],
        may_change: Collection[str] = (),
        step: int = 0,
    ) -> Self:
        """Open the folder of this very run, or make it, whole, where there is none.

        Of the settings, those that `may_change` are written down with the step they begin at.
        """
        with _writing(path):
            require_folder(path)
            if _empty(path):
                manifest.make(path, config)
            changes = _changes(path, config, may_change, step)
            folder = cls(path)
            folder.changes = changes
            if changes:
                try:
                    manifest.record(path, config, changes)
                except BaseException:
                    folder.close()
                    raise
            return folder

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, log: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows to a log."""
        with _writing(self.path):
            lines = (json.dumps({"schema": SCHEMA, **row}, allow_nan=False) for row in rows)
            left = memoryview("".join(f"{line}\n" for line in lines).encode())
            while left:
                left = left[self._files[log].write(left) :]

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Cut the logs back to the lengths they had, 0 where none is given."""
        for log in self.LOGS:
            length = lengths.get(log, 0)
            file = self._files[log]
            size = file.seek(0, os.SEEK_END)
            if size < length:
                raise MetisError(
                    f"{self.path / log!s}.jsonl = {size} bytes, shorter than its checkpoint "
                    f"says ({length}): restore the file, or start a new run folder"
                )
            file.truncate(length)
            file.seek(length)


class RunFolder(Folder):
    """The folder of a training run, with its checkpoints."""

    LOGS = LOGS

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        (path / "checkpoints").mkdir(exist_ok=True)

    def checkpoint(
        self, step: int, saved: dict[str, Any], write: Callable[[Path], None], keep: int
    ) -> None:
        """Save a step under its final name only when all of it is on disk; drop the oldest."""
        with _writing(self.path):
            lengths = {}
            for log, file in self._files.items():
                os.fsync(file.fileno())
                lengths[log] = file.tell()
            files.sync(self.path)
            with files.appearing(self.path / "checkpoints" / f"step-{step:06d}") as draft:
                write(draft)
                state.save(draft / "run.state", {**saved, "step": step, "logs": lengths})
            for _, folder in self.checkpoints()[:-keep]:
                shutil.rmtree(folder)

    def keep_best(self, step: int) -> None:
        """Keep the checkpoint of a step as `best`."""
        with _writing(self.path):
            files.keep_copy(self.path / "checkpoints" / f"step-{step:06d}", "best")

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Finished checkpoints, oldest first."""
        return checkpoints(self.path)

    def resume(self) -> tuple[dict[str, Any], Path] | None:
        """The state of the latest checkpoint, and its folder."""
        return latest(self.path)


_NUMBER = int | float
_STEP_ROW = {"step": int}
_PROMPT_ROW = {"step": int, "prompt": str}
_FIELDS: dict[str, dict[str, Any]] = {
    "metrics": _STEP_ROW,
    "timings": _STEP_ROW,
    "judgments": _PROMPT_ROW,
    "exemplars": _PROMPT_ROW,
    "rollouts": _PROMPT_ROW,
    "evals": {**_PROMPT_ROW, "reward": _NUMBER},
    "notices": {**_STEP_ROW, "text": str},
    "outcomes": {
        **{"prompt": str, "category": str, "rewards": list, "tokens": list},
        **{"failed": int, "cut_off": int},
    },
}
"""Fields without which a line is no row of its log."""
_OTHER_FIELDS: dict[str, dict[str, Any]] = {
    "timings": {"elapsed": _NUMBER},
    "judgments": {"score": _NUMBER | None, "distribution": dict},
    "rollouts": {"rewards": list, "tokens": list, "failed": int},
}
"""Fields that a row may have, and what they are then."""


def read(path: Path, log: str, optional: bool = False, having: bytes = b"") -> list[dict[str, Any]]:
    """The rows of a log of a run folder; of a long one only lines that contain `having`.

    What is damaged is refused, with its line; a last line without its end is left out, since the
    run still writes it or was killed. No log is no row where it is optional.
    """
    file = log_file(path, log)
    try:
        return [
            _row(file, number, line, log)
            for number, line in enumerate(log_lines(file), start=1)
            if having in line and not _torn(line)
        ]
    except FileNotFoundError:
        if optional:
            return []
        raise MetisError(f"run {str(path)!r} has no {file.name}: name a run folder") from None
    except OSError as error:
        raise MetisError(f"{str(file)!r} cannot be read ({error.strerror}): mend that") from None


def _torn(line: bytes) -> bool:
    """True of the end of a log that is being written, or whose run was killed."""
    if line.endswith(b"\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _row(file: Path, number: int, line: bytes, log: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if isinstance(row, dict) and _fits(row, log):
        return row
    raise Damaged(
        f"{file}, line {number}, is damaged: restore the file, or start a new run folder",
        file.parent,
        f"{file.name}, line {number}",
    )


def _fits(row: Mapping[str, Any], log: str) -> bool:
    """True of a row whose fields are of their kinds; metrics, rewards and lengths are numbers."""
    needed, others = _FIELDS.get(log, {}), _OTHER_FIELDS.get(log, {})
    lists = [row[key] for key in ("rewards", "tokens") if isinstance(row.get(key), list)]
    return (
        all(isinstance(row.get(key), kind) for key, kind in needed.items())
        and all(isinstance(row[key], kind) for key, kind in others.items() if key in row)
        and all(isinstance(number, _NUMBER) for numbers in lists for number in numbers)
        and all(isinstance(row[key], _NUMBER | None) for key in row if _is_metric(key, log))
    )


def _is_metric(key: str, log: str) -> bool:
    return log == "metrics" and "/" in key


def check(path: Path, config: Mapping[str, Any], may_change: Collection[str]) -> None:
    """Refuse at once what opening the folder would refuse; nothing is made or changed."""
    require_folder(path)
    with _writing(path):
        if not _empty(path):
            _changes(path, config, may_change, step=0)
            hold(path).close()
            return
        whole = path.absolute()
        there = next(folder for folder in (whole, *whole.parents) if folder.exists())
        tempfile.TemporaryDirectory(prefix=".", suffix=".draft", dir=there).cleanup()


def resumption(
    path: Path,
    config: Mapping[str, Any],
    may_change: Collection[str],
    step: int,
    anew: str = manifest.NO_CHECKPOINT,
) -> str | None:
    """A sentence about the run that a folder holds, if any, with the reason where it begins anew;
    what opening it would refuse of the settings is refused, and nothing is made.
    """
    require_folder(path)
    with _writing(path):
        if _empty(path):
            return None
    return manifest.resuming(path, step, _changes(path, config, may_change, step), anew)


def _changes(
    path: Path, config: Mapping[str, Any], may_change: Collection[str], step: int
) -> list[manifest.Change]:
    """Settings that a run goes on with and that were others; a run that cannot is refused."""
    if any(log_file(path, log).suffix == GZIPPED for log in LOGS):
        raise MetisError(
            f"--out {str(path)!r} holds a run whose logs are gzipped, to which nothing is added: "
            f"name another folder, or gunzip {path}/*.jsonl.gz to go on with it"
        )
    return manifest.changes(path, config, may_change, step)


def latest(path: Path) -> tuple[dict[str, Any], Path] | None:
    """The state of the latest checkpoint of a run folder, and the checkpoint's folder."""
    entries = checkpoints(path)
    if not entries:
        return None
    _, folder = entries[-1]
    try:
        return state.load(folder / "run.state"), folder
    except OSError as error:
        raise incomplete(folder, error) from None


def checkpoints(path: Path) -> list[tuple[int, Path]]:
    """The finished checkpoints of a run folder with their steps, oldest first."""
    folders = (path / "checkpoints").glob("step-*")
    return sorted((int(match[1]), f) for f in folders if (match := _STEP.fullmatch(f.name)))


_STEP = re.compile(r"step-(\d+)")


def _empty(path: Path) -> bool:
    """True where nothing is there but the remains of a run that was stopped at once."""
    ours = re.compile(r"versions\.json|checkpoints|\.lock|\..*\.draft")
    return not path.exists() or all(ours.fullmatch(item.name) for item in path.iterdir())


def hold(path: Path) -> IO[bytes]:
    """The lock of a folder, held until it is closed; one process at a time may have it."""
    try:
        return files.lock(path / ".lock")
    except BlockingIOError:
        raise MetisError(
            f"--out {str(path)!r} is in use by another process: wait for it, or name another"
        ) from None


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unusable(path, error) from None


def incomplete(folder: Path, error: OSError) -> MetisError:
    return MetisError(
        f"checkpoint {str(folder)!r} is incomplete ({error.strerror or error}): delete that folder "
        "to go on from the checkpoint before it, or to start over if there is none"
    )


def _unusable(path: Path, error: OSError) -> MetisError:
    return MetisError(
        f"run folder {str(path)!r} cannot be written ({error.strerror or error}): make room there, "
        "or name another folder with --out"
    )


def log_file(folder: Path, log: str) -> Path:
    """The file of a log in its folder; its plain name where there is none."""
    plain = folder / f"{log}.jsonl"
    gzipped = plain.with_name(plain.name + GZIPPED)
    return gzipped if gzipped.exists() and not plain.exists() else plain


def log_lines(file: Path) -> Iterator[bytes]:
    """The lines of a log, one at a time; what cannot be unpacked to its end is refused."""
    if file.suffix != GZIPPED:
        with file.open("rb") as plain:
            yield from plain
        return
    number = 0
    try:
        if not file.stat().st_size:  # which gzip takes for no lines
            raise EOFError("the file is empty")
        with gzip.open(file) as unpacked:
            for line in unpacked:
                number += 1
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{file}, after line {number}, is damaged ({error}): restore the file"
        raise Damaged(message, file.parent, f"{file.name}, after line {number}") from None
