"""Files of a folder that is shown, and of nothing else: a link that leads out is refused."""

from collections.abc import Iterator
from pathlib import Path

from metis.errors import Damaged


def inside(folder: Path, path: Path) -> Path:
    """The same path; refused where it is a link to something outside of the folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        name = path.relative_to(folder)
        raise Damaged(f"{path} leads out of its folder: it is not read", folder, f"{name}, a link")
    return path


def names(folder: Path, pattern: str) -> Iterator[str]:
    """The names of files in the folder, in order; those that lead out too, for `inside` to say."""
    for path in sorted(folder.glob(pattern)):
        if path.is_file():
            yield path.relative_to(folder).as_posix()
