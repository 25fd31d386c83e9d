"""Atomic writes of files and folders, file locks, and checks of paths."""

import contextlib
import errno
import functools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from metis.errors import Damaged, MetisError, first_line


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    if os.name == "nt":  # Windows opens no folders, and files only to write
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Write a file atomically: it gets its name once it is complete and on disk."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def publish(draft: Path, name: str) -> None:
    """fsync a folder and everything in it, then rename it."""
    for path in (*draft.rglob("*"), draft):
        sync(path)
    draft.rename(draft.with_name(name))
    sync(draft.parent)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Write a folder atomically: it gets its name once complete; on an error it is deleted."""
    draft = target.with_name(f".{target.name}.draft")
    if draft.exists():  # left by a process that was killed
        shutil.rmtree(draft)
    draft.mkdir(parents=True)
    try:
        yield draft
        publish(draft, target.name)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def same_access(folder: Path, name: str) -> None:
    """Copy the permissions of one file to all files of a folder, as safetensors writes 0600."""
    mode = (folder / name).stat().st_mode
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(mode)


def link_copy(source: Path, name: str) -> None:
    """Copy a folder under another name beside it, with hard links where possible.

    Interrupted, it may leave no folder of that name, but never a partial one; calling it again
    repairs that.
    """
    kept = source.with_name(name)
    draft, old = (source.with_name(f".{name}{part}.draft") for part in ("", "-old"))
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(source, draft, copy_function=_link)
        if kept.exists():
            kept.rename(old)
        publish(draft, name)
    finally:
        for left in (draft, old):
            shutil.rmtree(left, ignore_errors=True)


NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems without locks, such as some Lustre and NFS mounts."""


def lock(path: Path, wait: bool = False) -> IO[bytes]:
    """Lock a file until it is closed; a BlockingIOError if another process holds it, or wait.

    On a file system without locks this warns, and locks nothing.
    """
    file = path.open("ab")
    with contextlib.suppress(ImportError):  # no fcntl on Windows, so no lock
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                file.close()
                raise
            _tell_of_no_locks(path.parent, os.strerror(error.errno))
        except BaseException:
            file.close()
            raise
    return file


@functools.cache
def _tell_of_no_locks(folder: Path, reason: str) -> None:
    """Warn, once per folder."""
    print(
        f"metis: the file system of {str(folder)!r} has no locks ({reason}): make sure that no "
        "other process uses this folder",
        file=sys.stderr,
        flush=True,
    )


def _link(source: str, target: str) -> None:
    """Hard-link a file, or copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def require_new_folder(target: Path) -> None:
    """Refuse a folder that has anything in it."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise MetisError(f"{str(target)!r} is already there: name a folder that is new, or empty")


def require_new_file(target: Path) -> None:
    """Refuse a file that is there, or whose folder is not."""
    if target.exists():
        raise MetisError(f"{str(target)!r} is already there: name a file that is new")
    if not target.absolute().parent.is_dir():
        raise MetisError(f"{str(target.parent)!r} is no folder: make it, or name another file")


@contextlib.contextmanager
def writing(target: Path) -> Iterator[None]:
    """Say in one line why a target cannot be written."""
    try:
        yield
    except OSError as error:
        raise MetisError(
            f"{str(target)!r} cannot be written ({error.strerror or first_line(error)}): make room "
            "there, or name another place"
        ) from None


def inside(folder: Path, path: Path) -> Path:
    """Return a path of a folder; refuse a link that leads out of it."""
    if not path.resolve().is_relative_to(folder.resolve()):
        name = path.relative_to(folder)
        raise Damaged(f"{path} leads out of its folder: it is not read", folder, f"{name}, a link")
    return path
