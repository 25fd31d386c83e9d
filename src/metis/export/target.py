"""Targets of an export: checked to be new, and errors of writing said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metis.errors import MetisError, first_line


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


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Say in one line why a target cannot be written."""
    try:
        yield
    except OSError as error:
        raise MetisError(
            f"{str(target)!r} cannot be written ({error.strerror or first_line(error)}): make room "
            "there, or name another place"
        ) from None
