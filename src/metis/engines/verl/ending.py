"""Why a run on verl ended, as a file for `metis train`.

verl runs in its own processes, which print only a traceback when they fail.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metis.errors import MetisError

NAME = "ended"


@contextmanager
def told(folder: Path, where: str = "") -> Iterator[None]:
    """Record in a folder why the trainer ended.

    Until another reason is known, the file says that the process on node `where` was killed."""
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
    """Delete the reason of an earlier start."""
    (folder / NAME).unlink(missing_ok=True)


def reason(folder: Path) -> str | None:
    """Why the last start ended, or None."""
    path = folder / NAME
    return path.read_text("utf-8") if path.exists() else None
