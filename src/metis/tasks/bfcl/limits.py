"""Bounds on what a call may cost: its arguments, and the file system that it walks through.

A call runs in this process, so it must end soon whatever a policy writes: no power of a billion
digits, and no directory that is copied into itself until a search takes a lifetime.
"""

from collections.abc import Mapping
from typing import Any

LARGEST = 10**308
"""About the largest float."""
BOUNDS: dict[str, dict[str, int]] = {
    "power": {"base": 10**12, "exponent": 1000},
    "logarithm": {"value": LARGEST, "base": LARGEST, "precision": 1000},
    "square_root": {"number": LARGEST, "precision": 1000},
    "round_number": {"decimal_places": 1000},
}
"""By function and parameter: the largest magnitude of a number."""
NAMES = {"mkdir": "dir_name", "touch": "file_name", "cp": "destination", "mv": "destination"}
"""Functions that make an entry of a directory, and the parameter that names it."""
LONGEST_NAME = 255
"""Characters of such a name, as on most file systems."""
RECURSIVE = ("find", "du")
"""Functions that visit every entry below a directory."""
ENTRIES = 20_000
"""Files and directories that a file system may hold; the largest scenario has a few hundred."""
PATHS = 1_000_000
"""Characters of the paths to all of them, which `find` returns."""
CHECKED = frozenset({*BOUNDS, *NAMES, *RECURSIVE})


class Exceeded(Exception):
    """A call that would cost too much; the message is for its author."""


def check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse numbers that take forever to compute with, also as text, which some functions read,
    and names that make every path long."""
    for parameter, bound in BOUNDS.get(name, {}).items():
        value = arguments.get(parameter)
        if value is None:
            continue
        if not isinstance(value, int | float):
            raise Exceeded(f"{name}: {parameter} is not a number")
        if not -bound <= value <= bound:
            raise Exceeded(f"{name}: {parameter} may be at most {bound:g}")
    named = arguments.get(NAMES.get(name, ""))
    if isinstance(named, str) and len(named) > LONGEST_NAME:
        raise Exceeded(f"{name}: a name may have at most {LONGEST_NAME} characters")


def check_directory(directory: Any, path: int = 1) -> None:
    """Refuse to walk through a directory of too many entries or too long paths, or one that
    contains itself; `path` are the characters of its own path."""
    entries, characters, waiting = 0, 0, [(directory, path)]
    while waiting:
        visited, before = waiting.pop()
        inside = [
            (each, before + 1 + len(name))
            for name, each in getattr(visited, "contents", {}).items()
        ]
        entries += len(inside)
        characters += sum(length for _, length in inside)
        if entries > ENTRIES or characters > PATHS:
            raise Exceeded(
                f"the file system has more than {ENTRIES} entries, or {PATHS} characters of paths"
            )
        waiting += inside
