"""Files of a folder that is shown, and of nothing else: a link that leads out is refused."""

from pathlib import Path

from metis.errors import Damaged


def inside(folder: Path, path: Path) -> Path:
    """The same path; refused where it is a link to something outside of the folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        name = path.relative_to(folder)
        raise Damaged(f"{path} leads out of its folder: it is not read", folder, f"{name}, a link")
    return path
