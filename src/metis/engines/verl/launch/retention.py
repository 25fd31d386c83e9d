"""The checkpoints of a run on verl that stay on disk: a few of the last, whatever start wrote them.

verl counts those of one start alone, and of one that it drops it leaves the folder. Its marker
names the last that is whole.
"""

import re
import shutil
from pathlib import Path

from metis import files
from metis.errors import MetisError

BEST = "best"
"""The folder of the checkpoint that tested best, which stays."""
STEP = "global_step_"
NUMBERED = re.compile(rf"{STEP}\d+")
MARKER = "latest_checkpointed_iteration.txt"


def make_room(folder: Path, keep: int | None) -> None:
    """Before a checkpoint is written to this folder: delete old ones, the remains of others that
    were not written to their end, and what is there.

    With the new one, `keep` stay, at least two; none or 0 keeps all. verl would write over the
    files of an earlier attempt at the step, which `best` may share.
    """
    if last_whole(folder.parent) == step_of(folder):
        forget(folder.parent)
    shutil.rmtree(folder, ignore_errors=True)
    if not keep or keep < 0:
        return
    earlier = [path for path in numbered(folder.parent) if step_of(path) < step_of(folder)]
    last = last_whole(folder.parent)
    whole = [path for path in earlier if last is None or step_of(path) <= last]
    kept = whole[-max(1, keep - 1) :]
    for path in earlier:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def go_on_from(folder: Path) -> None:
    """Mark a checkpoint as the last, as the logs end there: later ones are of another attempt."""
    if last_whole(folder.parent) != step_of(folder):
        with files.atomic(folder.parent / MARKER) as file:
            file.write(str(step_of(folder)).encode())


def is_best(name: str) -> bool:
    """True of the best checkpoint of a run, or of an attempt of it that was abandoned."""
    return re.fullmatch(rf"{BEST}(-of-step-\d+(-\d+)?)?", name) is not None


def forget(folder: Path) -> None:
    """Mark no checkpoint in a folder as the last: all of them are of another attempt."""
    (folder / MARKER).unlink(missing_ok=True)


def numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, by step."""
    paths = folder.glob(f"{STEP}*")
    return sorted((path for path in paths if NUMBERED.fullmatch(path.name)), key=step_of)


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix(STEP))


def last_whole(folder: Path) -> int | None:
    """The step of the last checkpoint that is whole, where one is marked."""
    marker = folder / MARKER
    text = marker.read_text() if marker.exists() else ""
    return int(text) if text.strip().isdecimal() else None


def marked(folder: Path) -> int | None:
    """The step that a marker names, if there is one; what is no step is refused."""
    marker, step = folder / MARKER, last_whole(folder)
    if step is None and marker.exists():
        raise MetisError(
            f"{marker} holds {marker.read_text()!r}, not a step: write the number of a folder "
            f"{STEP}NUMBER beside it, whose checkpoint is whole"
        )
    return step
