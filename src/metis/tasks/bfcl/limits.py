"""Limits on the cost of calls: their arguments, the state they leave, and their results.

Calls run in this process, so time and memory must be bounded whatever a policy writes: no powers
with a billion digits, no directory copied into itself until a search never ends, no replies whose
calls search everything that hundreds of earlier calls have stored.
"""

from collections.abc import Mapping
from typing import Any

LARGEST = 10**308
"""About the largest float."""
BOUNDS: dict[str, dict[str, int]] = {
    "power": {"base": 10**12, "exponent": 1000},
    "logarithm": {"value": LARGEST, "base": LARGEST, "precision": 100},
    "square_root": {"number": LARGEST, "precision": 100},
    "round_number": {"decimal_places": 1000},
    "compute_exchange_rate": {"value": LARGEST},
}
"""By function and parameter: the largest magnitude of a number."""
TEXTS = {"echo": "content"}
"""Functions that keep a text, and the parameter that it is."""
NAMES = {
    "mkdir": "dir_name",
    "touch": "file_name",
    "cp": "destination",
    "mv": "destination",
    "ticket_login": "username",
    "get_flight_cost": "travel_date",
}
"""Functions that keep a name which results repeat, and the parameter that it is."""
LONGEST_NAME = 255
"""Characters of such a name, as on most file systems."""
RECURSIVE = ("find", "du", "cp")
"""Functions that visit every entry below a directory, or make more of them than one."""
ENTRIES = 1000
"""Files and directories that a file system may hold; the largest scenario has 126."""
PATHS = 100_000
"""Characters of the paths to all of them, which `find` returns; the largest scenario has 4,800."""
CONTENTS = 250_000
"""Characters of all files, which `du` encodes; the largest scenario has 30,000."""
CHECKED = frozenset({*BOUNDS, *TEXTS, *NAMES, *RECURSIVE})
CHUNK = 16
"""Characters of text that count as one value."""
WORK = 10_000
"""Values that the calls of a reply may look through: each may look at all that was given to calls
before it in the episode. No ground truth comes to 1,200 in a turn."""
RESULTS = 500_000
"""Characters of results after which no more calls of a reply are made; no ground truth has 71,000
in a turn."""


class Exceeded(Exception):
    """A call that would cost too much; the policy gets the message."""


class ReplyCost:
    """The cost of the calls of one reply so far."""

    def __init__(self) -> None:
        self.work = self.results = 0

    def check(self, given: int) -> None:
        """Refuse a call that would search too many values, or follows too long results."""
        self.work += given
        if self.work > WORK or self.results > RESULTS:
            raise Exceeded("too much for one reply: make fewer or shorter calls")


def values(argument: Any) -> int:
    """The values that an argument consists of."""
    if isinstance(argument, str | bytes):
        return 1 + len(argument) // CHUNK
    if isinstance(argument, dict):
        return 1 + sum(map(values, argument)) + sum(map(values, argument.values()))
    if isinstance(argument, list | tuple | set):
        return 1 + sum(map(values, argument))
    return 1


def check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse numbers that take forever to compute with, also as text, which some functions read,
    what is kept as text and is none, and names that make every path or every result long."""
    for parameter, bound in BOUNDS.get(name, {}).items():
        value = arguments.get(parameter)
        if value is None:
            continue
        if not isinstance(value, int | float):
            raise Exceeded(f"{name}: {parameter} is not a number")
        if not -bound <= value <= bound:
            raise Exceeded(f"{name}: {parameter} may be at most {bound:g}")
    for text in filter(None, (TEXTS.get(name), NAMES.get(name))):
        if text in arguments and not isinstance(arguments[text], str):
            raise Exceeded(f"{name}: {text} is not text")
    if len(arguments.get(NAMES.get(name, ""), "")) > LONGEST_NAME:
        raise Exceeded(f"{name}: a name may have at most {LONGEST_NAME} characters")


def check_directory(directory: Any, path: int = 1) -> None:
    """Refuse to walk through a directory of too many entries, too long paths or too much text, or
    one that contains itself; `path` are the characters of its own path."""
    entries, paths, contents, waiting = 0, 0, 0, [(directory, path)]
    while waiting:
        visited, before = waiting.pop()
        contents += len(getattr(visited, "content", ""))
        inside = [
            (each, before + 1 + len(name))
            for name, each in getattr(visited, "contents", {}).items()
        ]
        entries += len(inside)
        paths += sum(length for _, length in inside)
        if entries > ENTRIES or paths > PATHS or contents > CONTENTS:
            raise Exceeded(
                f"the file system has more than {ENTRIES} entries, {PATHS} characters of paths or "
                f"{CONTENTS} characters of text"
            )
        waiting += inside
