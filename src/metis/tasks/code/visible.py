"""The host's folders that are mounted read-only into a sandbox, and those hidden in them.

Whatever may contain answers is hidden: installed packages, this package, its data, the working
folder, and folders in /usr that are not part of a system. If such a folder also has files that
Python needs, the narrower folders around the data are hidden instead.
"""

import functools
import glob
import os
import stat
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

import metis
from metis.data.fetched import home

SYSTEMS = (Path("/usr"), Path("/usr/local"))
PARTS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "include", "share", "local")
"""Folders of /usr that are part of a system; others, such as `src`, are hidden."""


LOOK = 1.0
"""Seconds between two scans of the host's folders: a new folder is hidden from sandboxes that start
after the next scan, not from running ones."""


def mounts(folders: Sequence[str]) -> list[str]:
    """bubblewrap's options for /usr, and for the folders of a Python outside it."""
    data = os.environ.get("METIS_DATA") or "data"
    answers = (Path(metis.__file__).parent, Path(data), home(), Path.cwd())
    return _mounts(tuple(folders), answers, int(time.monotonic() / LOOK))


@functools.lru_cache(maxsize=1)
def _mounts(folders: tuple[str, ...], answers: tuple[Path, ...], look: int) -> list[str]:
    others = _others()
    shown = [*(system / part for system in SYSTEMS for part in PARTS[:-1]), *map(Path, folders)]
    secret = _secrets(shown, answers)
    words = ["--ro-bind", "/usr", "/usr"]
    for path in others:
        words += ["--size", "4096", "--tmpfs", str(path)]
    for folder in folders:
        words += ["--ro-bind", folder, folder]
    for path in secret:
        words += ["--size", "4096", "--tmpfs", str(path)]
    for path in (*others, *secret):
        words += ["--remount-ro", str(path)]
    return words


def _others() -> list[Path]:
    """Non-empty folders of /usr that are not part of a system."""
    entries = (path for system in SYSTEMS if system.is_dir() for path in sorted(system.iterdir()))
    others = (path for path in entries if path.name not in PARTS and _can_be_hidden(path))
    return [path for path in others if not os.access(path, os.R_OK) or any(path.iterdir())]


def _secrets(shown: Sequence[Path], answers: Sequence[Path]) -> list[Path]:
    """The outermost folders that may contain answers."""
    packages, needed = _of_pythons(tuple(shown))
    hideable = set(packages)
    for path in answers:
        hideable.update(_outermost(path.resolve(), shown, needed))
    hidden = [path for path in sorted(hideable) if _can_be_hidden(path)]
    return [path for path in hidden if not any(_within(path, other) for other in hidden)]


@functools.cache
def _of_pythons(shown: tuple[Path, ...]) -> tuple[list[Path], list[Path]]:
    """Folders of installed packages, and folders that Python needs."""
    libraries = [path for folder in shown for path in glob.glob(f"{folder}/python3*")]
    needed = [Path(path).resolve() for path in libraries if os.path.exists(f"{path}/os.py")]
    needed += [*shown, Path("/usr/lib", sysconfig.get_config_var("MULTIARCH") or "")]
    packages = [
        Path(path).resolve()
        for library in libraries
        for kind in ("site-packages", "dist-packages")
        for path in glob.glob(f"{library}/{kind}")
    ]
    return packages, needed


def _outermost(path: Path, shown: Sequence[Path], needed: Sequence[Path]) -> list[Path]:
    """The widest mounted folder around a path without anything that Python needs, if any."""
    around = [*reversed(path.parents), path]
    inside = (at for at in around if any(_within(at, folder) for folder in shown))
    free = (at for at in inside if not any(at == part or _within(part, at) for part in needed))
    return list(free)[:1]


def _within(path: Path, folder: Path) -> bool:
    return str(path).startswith(f"{folder}/")


def _can_be_hidden(path: Path) -> bool:
    """True for a folder that the sandbox's user can reach."""
    try:
        if path.is_symlink() or not path.is_dir():
            return False
        return bool(os.geteuid()) or all(p.stat().st_mode & stat.S_IXOTH for p in path.parents)
    except OSError:
        return False
