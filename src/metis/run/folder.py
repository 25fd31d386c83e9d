"""The run folder: settings, logs and checkpoints of a run.

`config.json` and `versions.json` say what ran; `metrics.jsonl` is deterministic, `timings.jsonl`
has the wall-clock times; `judgments.jsonl`, `exemplars.jsonl` and `rollouts.jsonl` say why prompts
were selected, which exemplars the judge saw and what the rollouts were; `evals.jsonl` has the
reward of every held-out prompt, `notices.jsonl` the messages shown, `prompts.jsonl` the text of
every candidate. `transcripts/` has what was said. `checkpoints/step-N` stores the length of every
log: to resume, logs and transcripts are truncated to the checkpoint. Gzipped logs
(`metrics.jsonl.gz`) can be read, but such a run cannot be resumed.

`checkpoints/best` is the checkpoint with the best validation, if any beat the initial model.
"""

import contextlib
import errno
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
from metis.run.transcripts import FOLDER, Transcripts

LOGS = ("metrics", "timings", "judgments", "exemplars", "rollouts", "evals", "notices", "prompts")
GZIPPED = ".gz"
DATA = "data.jsonl"
"""Rows that a run was given from memory; they are in its folder before it is."""
DRAFTS = (".*.draft", "checkpoints/.*.draft", f"{FOLDER}/.*.draft")
"""Remains of a process that was killed."""


class Folder:
    """An open folder with settings and JSONL logs, locked by one process at a time."""

    LOGS: ClassVar[tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changes: list[manifest.Change] = []
        """Settings that differ from when the folder was last open."""
        self._lock = lock_folder(path)
        for draft in (d for part in DRAFTS for d in path.glob(part)):
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
        self.transcripts = Transcripts(path)
        self._files = {log: (path / f"{log}.jsonl").open("ab", buffering=0) for log in self.LOGS}

    @classmethod
    def open(
        cls,
        path: Path,
        config: Mapping[str, Any],
        may_change: Collection[str] = (),
        step: int = 0,
    ) -> Self:
        """Open the folder of a run with these settings, or create it.

        Changed settings, which `may_change` must allow, are recorded with the step they start at.
        """
        with writing(path):
            require_folder(path)
            if _empty(path):
                manifest.create(path, config)
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
        with writing(self.path):
            lines = (json.dumps({"schema": SCHEMA, **row}, allow_nan=False) for row in rows)
            left = memoryview("".join(f"{line}\n" for line in lines).encode())
            while left:
                left = left[self._files[log].write(left) :]

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Truncate the logs to these lengths, 0 where none is given; transcripts remain."""
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
        """Save a checkpoint atomically, and delete the oldest beyond `keep`."""
        with writing(self.path):
            lengths = {}
            for log, file in self._files.items():
                os.fsync(file.fileno())
                lengths[log] = file.tell()
            self.transcripts.sync()
            files.sync(self.path)
            with files.atomic_folder(self.path / "checkpoints" / f"step-{step:06d}") as draft:
                write(draft)
                state.save_state(draft / "run.state", {**saved, "step": step, "logs": lengths})
            for _, folder in self.checkpoints()[:-keep]:
                shutil.rmtree(folder)

    def keep_best(self, step: int) -> None:
        """Keep the checkpoint of a step as `best`."""
        with writing(self.path):
            files.link_copy(self.path / "checkpoints" / f"step-{step:06d}", "best")

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Complete checkpoints, oldest first."""
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
    "prompts": {**_PROMPT_ROW, "text": str},
    "outcomes": {
        **{"prompt": str, "category": str, "rewards": list, "tokens": list},
        **{"failed": int, "cut_off": int},
    },
    "predictions": {
        **{"prompt": str, "row": int},
        **{"score": _NUMBER | None, "pass_rate": _NUMBER | None},
    },
}
"""Required fields of each log's rows, with their types."""
_OTHER_FIELDS: dict[str, dict[str, Any]] = {
    "timings": {"elapsed": _NUMBER},
    "judgments": {"score": _NUMBER | None, "v_hat": _NUMBER, "distribution": dict},
    "rollouts": {"rewards": list, "tokens": list, "failed": int},
}
"""Optional fields of each log's rows, with their types."""


def read_log(
    path: Path, log: str, optional: bool = False, having: bytes = b""
) -> list[dict[str, Any]]:
    """All rows of `log_rows`."""
    return list(log_rows(path, log, optional, having))


def log_rows(
    path: Path, log: str, optional: bool = False, having: bytes = b""
) -> Iterator[dict[str, Any]]:
    """The rows of a log one by one, or only those whose line contains `having`.

    A corrupted line is refused; an incomplete last line is skipped, since the run is still writing
    or was killed. A missing log has no rows if `optional`.
    """
    file = log_file(path, log)
    try:
        for number, line in enumerate(log_lines(file), start=1):
            if having in line and not _torn(line):
                yield parse_row(file, number, line, log)
    except FileNotFoundError:
        if optional:
            return
        raise MetisError(f"run {str(path)!r} has no {file.name}: name a run folder") from None
    except OSError as error:
        raise MetisError(f"{str(file)!r} cannot be read ({error.strerror}): mend that") from None


def _torn(line: bytes) -> bool:
    """True for an incomplete last line: the run is still writing, or was killed."""
    if line.endswith(b"\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def parse_row(file: Path, number: int, line: bytes, log: str) -> dict[str, Any]:
    """A row of a log; a corrupted line is refused."""
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
    """True if the fields of a row have the right types."""
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


def check_run_folder(path: Path, config: Mapping[str, Any], may_change: Collection[str]) -> None:
    """Run the checks of opening the folder, without creating or changing anything."""
    require_folder(path)
    with writing(path):
        if not _empty(path):
            _changes(path, config, may_change, step=0)
            lock_folder(path).close()
            return
        whole = path.absolute()
        there = next(folder for folder in (whole, *whole.parents) if folder.exists())
        tempfile.TemporaryDirectory(prefix=".", suffix=".draft", dir=there).cleanup()


def resume_remark(
    path: Path,
    config: Mapping[str, Any],
    may_change: Collection[str],
    step: int,
    anew: str = manifest.NO_CHECKPOINT,
) -> str | None:
    """A message about how an existing run would resume, or `anew`: why it starts over; or None.

    Checks the settings as opening the folder does, without creating anything.
    """
    require_folder(path)
    with writing(path):
        if _empty(path):
            return None
    return manifest.resume_message(path, step, _changes(path, config, may_change, step), anew)


def _changes(
    path: Path, config: Mapping[str, Any], may_change: Collection[str], step: int
) -> list[manifest.Change]:
    """Settings that changed since the run was last open; a run that cannot resume is refused."""
    if any(log_file(path, log).suffix == GZIPPED for log in LOGS):
        raise MetisError(
            f"--out {str(path)!r} holds a run whose logs are gzipped, which cannot be resumed: "
            f"name another folder, or gunzip {path}/*.jsonl.gz"
        )
    return manifest.changes(path, config, may_change, step)


def latest(path: Path) -> tuple[dict[str, Any], Path] | None:
    """The state of the latest checkpoint of a run folder, and the checkpoint's folder."""
    entries = checkpoints(path)
    if not entries:
        return None
    _, folder = entries[-1]
    try:
        return state.load_state(folder / "run.state"), folder
    except OSError as error:
        raise incomplete(folder, error) from None


def checkpoints(path: Path) -> list[tuple[int, Path]]:
    """The complete checkpoints of a run folder with their steps, oldest first."""
    folders = (path / "checkpoints").glob("step-*")
    return sorted((int(match[1]), f) for f in folders if (match := _STEP.fullmatch(f.name)))


_STEP = re.compile(r"step-(\d+)")


def _empty(path: Path) -> bool:
    """True if the folder does not exist, or has only remains of a start that was interrupted."""
    ours = re.compile(rf"{re.escape(DATA)}|versions\.json|checkpoints|\.lock|\..*\.draft")
    return not path.exists() or all(ours.fullmatch(item.name) for item in path.iterdir())


def lock_folder(path: Path) -> IO[bytes]:
    """Lock a folder until the file is closed; refused if another process has it."""
    try:
        return files.lock(path / ".lock")
    except BlockingIOError:
        raise MetisError(
            f"--out {str(path)!r} is in use by another process: wait for it, or name another"
        ) from None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the folder in errors of writing there."""
    try:
        yield
    except OSError as error:
        raise _unusable(path, error) from None


def incomplete(folder: Path, error: OSError) -> MetisError:
    return MetisError(
        f"checkpoint {str(folder)!r} is incomplete ({error.strerror or error}): delete that folder "
        "to resume from the checkpoint before it, or to start over if there is none"
    )


def _unusable(path: Path, error: OSError) -> MetisError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return MetisError(
        f"run folder {str(path)!r} cannot be written ({error.strerror or error}): "
        f"{'free some space' if full else 'make it writable'}, or name another folder with --out"
    )


def log_file(folder: Path, log: str) -> Path:
    """The path of a log, plain or gzipped; the plain one where neither exists."""
    plain = folder / f"{log}.jsonl"
    gzipped = plain.with_name(plain.name + GZIPPED)
    return gzipped if gzipped.exists() and not plain.exists() else plain


def log_lines(file: Path) -> Iterator[bytes]:
    """The lines of a log; a corrupted gzip file is refused."""
    if file.suffix != GZIPPED:
        with file.open("rb") as plain:
            yield from plain
        return
    number = 0
    try:
        if not file.stat().st_size:  # gzip reads it as no lines
            raise EOFError("the file is empty")
        with gzip.open(file) as unpacked:
            for line in unpacked:
                number += 1
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{file}, after line {number}, is damaged ({error}): restore the file"
        raise Damaged(message, file.parent, f"{file.name}, after line {number}") from None
