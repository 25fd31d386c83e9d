"""Bounds on what a call may cost: its arguments, and the file system that it walks through.

A call runs in this process, so it must end soon whatever a policy writes: no power of a billion
digits, and no directory that is copied into itself until a search takes a lifetime.
"""

from collections.abc import Mapping
from typing import Any

BOUNDS: dict[str, dict[str, int]] = {
    "power": {"base": 10**12, "exponent": 1000},
    "logarithm": {"precision": 1000},
    "square_root": {"precision": 1000},
    "round_number": {"decimal_places": 1000},
}
"""By function and parameter: the largest magnitude of a number."""
RECURSIVE = ("find", "du")
"""Functions that visit every entry below a directory."""
ENTRIES = 20_000
"""Files and directories that a file system may hold; the largest scenario has a few hundred."""


class Exceeded(Exception):
    """A call that would cost too much; the message is for its author."""


def check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse numbers that take forever to compute with, also as text, which some functions read."""
    for parameter, bound in BOUNDS.get(name, {}).items():
        value = arguments.get(parameter)
        if value is None:
            continue
        if not isinstance(value, int | float):
            raise Exceeded(f"{name}: {parameter} is not a number")
        if not -bound <= value <= bound:
            raise Exceeded(f"{name}: {parameter} may be at most {bound}")


def check_directory(directory: Any) -> None:
    """Refuse to walk through a directory of too many entries, or one that contains itself."""
    left, waiting = ENTRIES, [directory]
    while waiting:
        contents = getattr(waiting.pop(), "contents", {})
        left -= len(contents)
        if left < 0:
            raise Exceeded(f"the file system has more than {ENTRIES} entries")
        waiting += contents.values()
