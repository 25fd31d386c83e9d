"""Notices of failed rollouts, mostly from a task's own code: once for each kind."""

from collections.abc import Sequence
from typing import Any

from metis.core import Group
from metis.errors import MetisError, located, place
from metis.run import notices


class TooLong(Exception):
    """Complain of prompts that do not fit the model's context."""


class FailureNotices:
    """Keeps the first error of each kind, which is its type and the line that raised it, or what is
    wrong with a reward.

    `untold` are sentences; who shows them takes them out.
    """

    def __init__(self) -> None:
        self.kinds: set[tuple[type[Exception], Any]] = set()
        self.untold: list[str] = []

    def add(self, errors: Sequence[Exception]) -> None:
        for error in errors:
            kind = type(error), place(error) or getattr(error, "fault", None)
            if kind not in self.kinds:
                self.kinds.add(kind)
                self.untold.append(notices.failure_notice(located(error)))


def require_reward(groups: Sequence[Group], errors: Sequence[Exception]) -> None:
    """Stop a run whose task fails every rollout that was asked for."""
    wrong = [error for error in errors if not isinstance(error, TooLong)]
    if wrong and not any(group.rewards for group in groups):
        if isinstance(wrong[0], MetisError):
            raise wrong[0]
        raise MetisError(
            f"all {sum(group.failed for group in groups)} rollouts of a step failed: "
            f"{located(wrong[0])}; mend the task, and the same command goes on from the last "
            "checkpoint"
        )
