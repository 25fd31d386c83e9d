"""The reason why a run on verl ended, passed on to `metis train`.

verl runs in processes of its own, whose last words are a traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metis.errors import MetisError

NAME = "ended"


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Write the reason of an end into a folder."""
    try:
        yield
    except MetisError as error:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAME).write_text(str(error), "utf-8")
        raise


def forget(folder: Path) -> None:
    """Before a start."""
    (folder / NAME).unlink(missing_ok=True)


def reason(folder: Path) -> str | None:
    """Why the last start ended."""
    path = folder / NAME
    return path.read_text("utf-8") if path.exists() else None
