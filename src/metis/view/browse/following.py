"""A thread that brings the indexes of all open folders up to date, for as long as they are open."""

import contextlib
from collections.abc import Sequence
from threading import Event, Thread

from metis.errors import MetisError
from metis.view.browse.opened import Opened

SLICE = 0.1
"""Seconds for one folder before the next has its turn."""
BREATH = 0.005
"""Seconds in between, in which requests have the database."""
PAUSE = 1.0
"""Seconds between two looks where nothing is new."""


class Follower:
    """Reads on what grows."""

    def __init__(self, opened: Sequence[Opened]) -> None:
        self.opened = opened
        self._stop = Event()
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.is_set():
            done = True
            for each in self.opened:
                done = self._turn(each) and done
                if self._stop.wait(BREATH):
                    return
            self._stop.wait(PAUSE if done else 0)

    def _turn(self, opened: Opened) -> bool:
        """A folder that cannot be read now may be readable later."""
        with contextlib.suppress(MetisError, OSError):
            return opened.index.update(SLICE)
        return True
