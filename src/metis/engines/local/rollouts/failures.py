"""Notices of failed rollouts, one per kind of error."""

from collections.abc import Sequence
from typing import Any

from metis.core import Group
from metis.errors import MetisError, located, place
from metis.run import notices


class TooLong(Exception):
    """The prompt exceeds the context window."""


class FailureNotices:
    """Collects a notice for the first error of each kind (type and line, or fault of a reward).

    `pending` are pending notices; the caller drains the list.
    """

    def __init__(self) -> None:
        self.kinds: set[tuple[type[Exception], Any]] = set()
        self.pending: list[str] = []

    def add(self, errors: Sequence[Exception]) -> None:
        for error in errors:
            kind = type(error), place(error) or getattr(error, "fault", None)
            if kind not in self.kinds:
                self.kinds.add(kind)
                self.pending.append(notices.failure_notice(located(error)))


def require_reward(groups: Sequence[Group], errors: Sequence[Exception]) -> None:
    """Stop the run if every rollout of a request failed in the task's code."""
    wrong = [error for error in errors if not isinstance(error, TooLong)]
    if wrong and not any(group.rewards for group in groups):
        if isinstance(wrong[0], MetisError):
            raise wrong[0]
        raise MetisError(
            f"all {sum(group.failed for group in groups)} rollouts of a step failed: "
            f"{located(wrong[0])}; fix the task, and the same command resumes from the last "
            "checkpoint"
        )
