"""Files and folders that are whole: named when they are on disk, held by one process at a time."""

import contextlib
import errno
import functools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    if os.name == "nt":  # Windows opens no folders, and files only to write
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is whole and on disk."""
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
    """Give a folder its name when all of it is on disk, and wait until the name is, too."""
    for path in (*draft.rglob("*"), draft):
        sync(path)
    draft.rename(draft.with_name(name))
    sync(draft.parent)


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name when all of it is on disk; with an error it goes."""
    draft = target.with_name(f".{target.name}.draft")
    if draft.exists():  # of a process that was killed
        shutil.rmtree(draft)
    draft.mkdir(parents=True)
    try:
        yield draft
        publish(draft, target.name)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def same_access(folder: Path, name: str) -> None:
    """Give the files of a folder the permissions of one of them: safetensors keeps what it writes
    to its owner."""
    mode = (folder / name).stat().st_mode
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(mode)


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
        publish(draft, name)
    finally:
        for left in (draft, old):
            shutil.rmtree(left, ignore_errors=True)


NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems that have no locks: Lustre and NFS may be mounted without them."""


def lock(path: Path, wait: bool = False) -> IO[bytes]:
    """A file that no other process can lock until it is closed; or a BlockingIOError at once.

    Where the file system has no locks nobody is kept away, which is told.
    """
    file = path.open("ab")
    with contextlib.suppress(ImportError):  # no fcntl on Windows: nobody is kept away there
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
    """Once for a folder."""
    print(
        f"metis: the file system of {str(folder)!r} has no locks ({reason}): make sure that no "
        "other process uses this folder",
        file=sys.stderr,
        flush=True,
    )


def _link(source: str, target: str) -> None:
    """The same file under another name; a copy on file systems that cannot do that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
