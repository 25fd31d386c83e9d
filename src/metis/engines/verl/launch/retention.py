"""The checkpoints of a run on verl that stay on disk: a few of the last, whatever start wrote them.

verl counts those of one start alone, and of one that it drops it leaves the folder. Its marker
names the last that is whole.
"""

import re
import shutil
from pathlib import Path

from metis import files

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
    shutil.rmtree(folder, ignore_errors=True)
    if not keep or keep < 0:
        return
    earlier = [path for path in _numbered(folder.parent) if _step(path) < _step(folder)]
    marked = _marked(folder.parent)
    whole = [path for path in earlier if marked is None or _step(path) <= marked]
    kept = whole[-max(1, keep - 1) :]
    for path in earlier:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def go_on_from(folder: Path) -> None:
    """Mark a checkpoint as the last, as the logs end there: later ones are of another attempt."""
    if _marked(folder.parent) not in (None, _step(folder)):
        with files.atomic(folder.parent / MARKER) as file:
            file.write(str(_step(folder)).encode())


def _numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, by step."""
    paths = folder.glob(f"{STEP}*")
    return sorted((path for path in paths if NUMBERED.fullmatch(path.name)), key=_step)


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix(STEP))


def _marked(folder: Path) -> int | None:
    """The step of the last checkpoint that is whole, where one is marked."""
    marker = folder / MARKER
    text = marker.read_text() if marker.exists() else ""
    return int(text) if text.strip().isdecimal() else None
