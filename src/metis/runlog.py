"""The run folder: what a run was, what it did, and from where it goes on.

`config.json` and `versions.json` say what ran; `metrics.jsonl` is deterministic, `timings.jsonl`
has the clock; `judgments.jsonl` and `rollouts.jsonl` say why prompts were chosen and what came of
it; `evals.jsonl` has the reward of every held-out prompt; `checkpoints/step-N` resumes. It holds
the length of every log, so that a run that was killed goes on as if it had not been: the logs are
cut back to the checkpoint and written again. `checkpoints/best` is the one that
tested best, if any did better than the model at the start.
"""

import contextlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import metis
from metis import state
from metis.errors import MetisError, require_folder

LOGS = ("metrics", "timings", "judgments", "rollouts", "evals")
SCHEMA = 1


class Folder:
    """An open folder of logs that says what they are of; one process at a time may hold it."""

    LOGS: ClassVar[tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _lock(path)
        for draft in (*path.glob(".*.draft"), *path.glob("checkpoints/.*.draft")):
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
        self._files = {log: (path / f"{log}.jsonl").open("ab", buffering=0) for log in self.LOGS}

    @classmethod
    def open(cls, path: Path, config: Mapping[str, Any]) -> Self:
        """Open the folder of this very run, or make it, whole, where there is none."""
        try:
            require_folder(path)
            if _empty(path):
                _make(path, config)
            _same_run(path, config)
            return cls(path)
        except OSError as error:
            raise _unusable(path, error) from None

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
            draft = self.path / "checkpoints" / f".step-{step:06d}.draft"
            draft.mkdir()
            try:
                write(draft)
                state.save(draft / "run.state", {**saved, "step": step, "logs": lengths})
                draft.rename(draft.with_name(f"step-{step:06d}"))
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            for _, folder in self.checkpoints()[:-keep]:
                shutil.rmtree(folder)

    def keep_best(self, step: int) -> None:
        """Keep the checkpoint of a step as `best`."""
        with _writing(self.path):
            keep_copy(self.path / "checkpoints" / f"step-{step:06d}", "best")

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Finished checkpoints, oldest first."""
        return checkpoints(self.path)

    def resume(self) -> tuple[dict[str, Any], Path] | None:
        """The state of the latest checkpoint, and its folder."""
        found = self.checkpoints()
        if not found:
            return None
        _, folder = found[-1]
        try:
            return state.load(folder / "run.state"), folder
        except OSError as error:
            raise incomplete(folder, error) from None


def keep_copy(source: Path, name: str) -> None:
    """Keep a folder under another name beside it, its files shared on disk where that is possible.

    Stopped halfway, it may leave no folder of that name, but never a part of one; calling it again
    mends it.
    """
    kept = source.with_name(name)
    draft, old = (source.with_name(f".{name}{part}.draft") for part in ("", "-old"))
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(source, draft, copy_function=_link)
        if kept.exists():
            kept.rename(old)
        draft.rename(kept)
    finally:
        for left in (draft, old):
            shutil.rmtree(left, ignore_errors=True)


def read(path: Path, log: str) -> list[dict[str, Any]]:
    """The rows of a log of a run folder."""
    with (path / f"{log}.jsonl").open("rb") as file:
        return [json.loads(line) for line in file]


def checkpoints(path: Path) -> list[tuple[int, Path]]:
    """The finished checkpoints of a run folder with their steps, oldest first."""
    folders = (path / "checkpoints").glob("step-*")
    return sorted((int(match[1]), f) for f in folders if (match := _STEP.fullmatch(f.name)))


_STEP = re.compile(r"step-(\d+)")


def _make(path: Path, config: Mapping[str, Any]) -> None:
    """Make a folder; `config.json`, which says what it is of, comes last."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in (("versions", _versions()), ("config", config)):
        with state.atomic(path / f"{name}.json") as file:
            file.write((json.dumps(content, indent=2) + "\n").encode())


def _link(source: str, target: str) -> None:
    """The same file under another name; a copy on file systems that cannot do that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _empty(path: Path) -> bool:
    """Whether nothing is there but what a run that was stopped at once leaves behind."""
    ours = re.compile(r"versions\.json|checkpoints|\.lock|\..*\.draft")
    return not path.exists() or all(ours.fullmatch(item.name) for item in path.iterdir())


def _versions() -> dict[str, Any]:
    packages = {}
    for name in ("numpy", "pydantic", "torch", "transformers", "vllm", "verl", "trl", "peft"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "schema": SCHEMA,
        "metis": metis.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
    }


def _same_run(path: Path, config: Mapping[str, Any]) -> None:
    try:
        before = json.loads((path / "config.json").read_text())
    except FileNotFoundError:
        raise MetisError(
            f"--out {str(path)!r}: the folder is not empty and not a run folder: name another one"
        ) from None
    except ValueError:
        raise MetisError(
            f"config.json of {str(path)!r} is damaged: restore it, or name another with --out"
        ) from None
    for key, old, new in _differences(before, json.loads(json.dumps(config))):
        raise MetisError(
            f"--out {str(path)!r} holds a run with {key} = {old!r}, not {new!r}: name another "
            "folder, or use the settings of that run to go on with it"
        )


def _differences(old: Any, new: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _differences(old.get(key), new.get(key), f"{prefix}{key}.")
    elif old != new:
        yield prefix.rstrip("."), old, new


def _lock(path: Path) -> IO[bytes]:
    file = (path / ".lock").open("ab")
    with contextlib.suppress(ImportError):  # no fcntl on Windows: two runs there are not stopped
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise MetisError(
                f"--out {str(path)!r} is in use by another process: wait for it, or name another"
            ) from None
    return file


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
