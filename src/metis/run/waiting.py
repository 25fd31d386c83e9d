"""Progress callbacks for slow operations, and a heartbeat thread."""

import threading
from collections.abc import Callable, Sequence
from typing import Self

from metis.core import Group

Say = Callable[[str], None]
"""Prints a line."""

Count = Callable[[int, int], object]
"""Progress callback: how many are done, of how many; may be called from any thread."""


def no_progress(done: int, total: int) -> None:
    """No-op progress callback."""


Hear = Callable[[Sequence[Group]], object]
"""Takes the groups of a validation, round by round."""


def unheard(groups: Sequence[Group]) -> None:
    """Ignores the groups."""


class Heartbeat:
    """Calls `beat` every `period` seconds from a thread, inside a `with` block."""

    def __init__(self, beat: Callable[[], None], period: float = 1.0) -> None:
        self.beat, self.period = beat, period
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def _beat(self) -> None:
        while not self.over.wait(self.period):
            self.beat()
