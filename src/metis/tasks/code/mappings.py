"""The kernel's memory for the mappings of a sandbox's processes, counted a little at each look.

No page of a mapping need be resident, and a fork copies them all, so that neither RLIMIT_AS nor
resident memory bounds it.
"""

import contextlib
import os
import time

EACH = 1536
"""Bytes that a mapping counts as: what the kernel keeps of it after a few forks."""
PAUSE = 0.25
"""Seconds between two counts."""
SHARE = 0.005
"""Seconds of a look: a process may have 65,530 mappings, which take about 0.03."""
PIECE = 1 << 16


class Mappings:
    """The mappings of processes by their names in a /proc; the first process is left out."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._counts: dict[str, int] = {}
        self._waiting: list[tuple[str, str]] = []
        self._open: tuple[str, int] | None = None
        self._asked = ""
        self._count, self._next = 0, time.monotonic() + PAUSE

    def memory(self, processes: int) -> int:
        """Bytes for those that live and were counted so far; `processes` is the /proc."""
        names = {name for name in os.listdir(processes) if name.isdigit()} - {self._first}
        until = time.monotonic() + SHARE
        if until >= self._next and not self._waiting and not self._open:
            self._waiting, self._asked = [(name, f"{name}/maps") for name in names], ""
            self._next = until + PAUSE
        while self._step(processes) and time.monotonic() < until:
            pass
        self._counts = {name: self._counts[name] for name in self._counts if name in names}
        return EACH * sum(self._counts.values())

    def _step(self, processes: int) -> bool:
        """Go on with a count; False where there is nothing to count."""
        if self._open is None:
            if not self._waiting:
                return False
            name, path = self._waiting.pop()
            with contextlib.suppress(OSError):
                self._open = name, os.open(path, os.O_RDONLY, dir_fd=processes)
            self._count = 0
            return True
        name, descriptor = self._open
        try:
            piece = os.read(descriptor, PIECE)
        except OSError:  # it has ended
            piece = b""
        self._count += piece.count(b"\n")
        self._counts[name] = max(self._count, self._counts.get(name, 0) if piece else 0)
        if not piece:
            self.close()
            self._go_on(processes, name)
        return True

    def _go_on(self, processes: int, name: str) -> None:
        """Ask the threads of a process whose first one has ended, until one tells."""
        threads = [each for each in self._waiting if each[0] == name]
        if self._count:
            self._waiting = [each for each in self._waiting if each not in threads]
        elif not threads and self._asked != name:
            self._asked = name
            with contextlib.suppress(OSError):
                folder = os.open(f"{name}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=processes)
                try:
                    listed = os.listdir(folder)
                finally:
                    os.close(folder)
                self._waiting += [
                    (name, f"{name}/task/{each}/maps") for each in listed if each != name
                ]

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None
