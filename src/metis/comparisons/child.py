"""A module as a process of its own, which does not outlive the one that started it.

    python -m metis.comparisons.child metis.cli train ...

Standard input is a pipe that the comparison holds open. When it closes, the comparison is gone, and
so is this process: a run that is killed goes on from its last checkpoint.
"""

import os
import runpy
import signal
import sys
import threading


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # not through a buffer, whose lock would outlast this thread
    os.killpg(os.getpgid(0), signal.SIGKILL)  # this session is the run's own, with all it started


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
