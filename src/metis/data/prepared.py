"""The command that makes a prepared file, for whoever names one that is not there."""

import shlex
from pathlib import Path

from metis.data.math_sets import SETS

FILES = {
    "math": tuple(SETS),
    "code": ("codecontests", "livecodebench", "humaneval", "mbpp", "bigcodebench"),
    "bfcl": ("train", "heldout"),
}
"""The files that `metis prepare` makes of each task, without their suffix."""

PAPER = "paper"
"""The folder that recipes have the paper's data in, and the preset that makes it."""

WITHOUT_PRESETS = ("code",)


def command(family: str, folder: Path, *sets: str) -> str:
    """The command that puts the files of a task into a folder: all, or some sets."""
    words = ["metis", "prepare", family, *sets]
    if PAPER in folder.parts and family not in WITHOUT_PRESETS:
        words.append(f"preset={PAPER}")
    if folder != Path("data", family):
        words += ["--out", str(folder)]
    return shlex.join(words)


def remedy(family: str, path: str | Path) -> str:
    """The remedy for a file that is not there."""
    file = Path(path)
    if file.suffix == ".parquet" and file.stem in FILES[family]:
        return f"`{command(family, file.parent)}` makes it"
    return f"`metis prepare {family}` makes none of that name: check it, or see its recipe"
