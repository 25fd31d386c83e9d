"""Why rollouts fail, mostly in a task's own code, told to who watches: once for each kind."""

import sysconfig
import textwrap
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb

from metis.core import Group
from metis.errors import MetisError

LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
ENGINE = str(Path(__file__).parent)
LONGEST = 300
"""Characters of an error's message that are shown."""


class TooLong(Exception):
    """What does not fit the model's context cannot be played, or not to its end."""


class Complaints:
    """Keeps the first error of each kind, which is its type and the line that raised it.

    `untold` are sentences; who shows them takes them out.
    """

    def __init__(self) -> None:
        self.kinds: set[tuple[type[Exception], tuple[str, int] | None]] = set()
        self.untold: list[str] = []

    def add(self, errors: Sequence[Exception]) -> None:
        for error in errors:
            kind = type(error), _place(error)
            if kind not in self.kinds:
                self.kinds.add(kind)
                self.untold.append(
                    f"a rollout failed: {describe(error)}; more of this kind are counted, not shown"
                )


def require_reward(groups: Sequence[Group], errors: Sequence[Exception]) -> None:
    """Stop a run whose task fails every rollout that was asked for."""
    wrong = [error for error in errors if not isinstance(error, TooLong)]
    if wrong and not any(group.rewards for group in groups):
        raise MetisError(
            f"all {sum(group.failed for group in groups)} rollouts of a step failed: "
            f"{describe(wrong[0])}; mend the task, and the same command goes on from the last "
            "checkpoint"
        )


def describe(error: Exception) -> str:
    """Type and message of an error, with the file and line where it arose."""
    message = textwrap.shorten(str(error), LONGEST, placeholder=" ...")
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = _place(error)
    return f"{text} ({place[0]}, line {place[1]})" if place else text


def _place(error: Exception) -> tuple[str, int] | None:
    """The innermost line of the task, or of a library where no line of the task is known."""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    theirs = [line for line in lines if not line[0].startswith(ENGINE)]
    own = [line for line in theirs if not line[0].startswith(LIBRARIES)]
    return (own or theirs)[-1] if theirs else None
