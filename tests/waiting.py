"""Waiting for what another process does, on a core that is left to it."""

import subprocess
from collections.abc import Callable
from contextlib import suppress


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Return within about a millisecond of the moment, or of the end of the process."""
    while process.poll() is None and not reached():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.001)
