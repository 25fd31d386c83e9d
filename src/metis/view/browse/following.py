"""A thread that brings the indexes of all open folders up to date, for as long as they are open."""

import contextlib
import sqlite3
from collections.abc import Sequence
from threading import Event, Thread

from metis.errors import MetisError
from metis.view.browse.opened import Opened

SLICE = 0.1
"""Seconds for one folder at once."""
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
        """Who was asked for last comes first, until there is no more to read."""
        while not self._stop.is_set():
            order = sorted(self.opened, key=lambda each: -each.asked)
            done = all(self._turn(each) for each in order)
            self._stop.wait(PAUSE if done else BREATH)

    def _turn(self, opened: Opened) -> bool:
        """True where all is read; a folder that cannot be read now may be readable later."""
        with contextlib.suppress(MetisError, OSError, sqlite3.Error):
            return opened.index.update(SLICE)
        return True
