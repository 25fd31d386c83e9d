"""A stopwatch for the judge's part of the update."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Accumulates seconds of marked work."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.seconds = clock, 0.0

    @contextmanager
    def running(self, share: float) -> Iterator[None]:
        """Add this share of the time inside the block; 0 does not read the clock."""
        start = self.clock() if share else 0.0
        yield
        if share:
            self.seconds += share * (self.clock() - start)


UNTIMED = Stopwatch(lambda: 0.0)
