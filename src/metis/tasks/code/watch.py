"""Enforces the limits of a sandbox from outside.

Before it reads a program, the driver hands over file descriptors of itself, of its /proc and of the
private folder. With them all processes of the sandbox can be measured and killed, even if the
driver hangs.
"""

import contextlib
import math
import os
import select
import signal
import socket

from metis.tasks.code.tests import Kind, Limits
from metis.tasks.code.usage import FIRST, Mappings, usage

INTERVAL = 0.025
"""Seconds between two checks of a test's usage."""
FILES = 4096
TIMEOUT: tuple[Kind, str] = ("timeout", "ran out of time")
MEMORY: tuple[Kind, str] = ("memory", "ran out of memory")
TOO_MANY_FILES: tuple[Kind, str] = ("memory", "made too many files")


class Watch:
    """Measures a sandbox from outside, and kills it."""

    def __init__(self, handed: socket.socket, limits: Limits) -> None:
        """`handed` is the socket on which the driver sent its file descriptors."""
        _, (self._first, self._processes, self._folder), _, _ = socket.recv_fds(handed, 1, 3)
        self._limits, self._mappings = limits, Mappings(FIRST)

    def excess(self, late: bool = False) -> tuple[Kind, str] | None:
        """The limit that the processes of a test together exceed, or None.

        If it is `late` the slow check, of memory mappings, is skipped."""
        used = usage(self._processes)
        memory = used.memory + (0 if late else self._mappings.memory(self._processes))
        if memory > self._limits.memory_mb << 20:
            return MEMORY
        space = os.fstatvfs(self._folder)
        if space.f_files - space.f_ffree > FILES:
            return TOO_MANY_FILES
        return TIMEOUT if used.cpu_seconds > self._limits.cpu_seconds else None

    def kill(self) -> None:
        """Kill process 1; the kernel then kills all others of its namespace."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)

    def ended(self, seconds: float) -> bool:
        """Wait up to `seconds`; True if all processes have ended, and the watch is closed."""
        poller = select.poll()
        poller.register(self._first, select.POLLIN)
        if not poller.poll(None if seconds == math.inf else 1000 * seconds):
            return False
        self._mappings.close()
        for descriptor in (self._first, self._processes, self._folder):
            os.close(descriptor)
        return True
