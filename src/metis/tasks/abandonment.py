"""Cancellation of calls: what a call waits for is ended once nobody needs its result.

Whoever runs a call in a thread makes it the `current` one there. Whatever the call waits for says
with `ended_by` how it is ended.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Abandoned(TimeoutError):
    """The call was cancelled: nobody waits for its result."""

    def __str__(self) -> str:
        return "the call was abandoned, as it was late"


class AbandonableCall:
    """A call in a thread that other threads may cancel; it is cancelled at its `deadline`."""

    def __init__(self) -> None:
        self.deadline = math.inf
        self._lock = threading.Lock()
        self._abandoned = False
        self._endings: list[Callable[[], object]] = []

    def abandon(self) -> None:
        """Cancel the call: end what it waits for, now and later."""
        with self._lock:
            self._abandoned = True
            for end in self._endings:
                end()

    def require_wanted(self) -> None:
        if self._abandoned:
            raise Abandoned

    @contextmanager
    def ended_by(self, end: Callable[[], object]) -> Iterator[None]:
        """Wait for something that `end` ends; raises Abandoned once the call is cancelled."""
        with self._lock:
            self.require_wanted()
            self._endings.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._endings.remove(end)
        self.require_wanted()


current: ContextVar[AbandonableCall | None] = ContextVar("current", default=None)
"""The call that this thread or coroutine serves."""


def this_call() -> AbandonableCall:
    """The current call; outside of any, one that is never cancelled."""
    return current.get() or AbandonableCall()
