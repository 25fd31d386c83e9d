"""The reason why a run on verl ended, passed on to `metis train`.

verl runs in processes of its own, whose last words are a traceback.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metis.errors import MetisError

NAME = "ended"


@contextmanager
def told(folder: Path, where: str = "") -> Iterator[None]:
    """Write the reason of an end into a folder: until there is another, that the process was killed
    (`where` is its node)."""
    _write(
        folder,
        f"the trainer's process, on {where or socket.gethostname()}, was killed, or its node died: "
        "the last checkpoint is complete, and the same command resumes from it; engine.nodes and "
        "engine.gpus may be fewer",
    )
    try:
        yield
    except MetisError as error:
        _write(folder, str(error))
        raise
    except BaseException:
        forget(folder)  # the output has its traceback
        raise
    forget(folder)


def _write(folder: Path, why: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(why, "utf-8")


def forget(folder: Path) -> None:
    """Before a start."""
    (folder / NAME).unlink(missing_ok=True)


def reason(folder: Path) -> str | None:
    """Why the last start ended."""
    path = folder / NAME
    return path.read_text("utf-8") if path.exists() else None
