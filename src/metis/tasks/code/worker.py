"""A worker of the scoring pool: a process that runs one program after the other in the sandbox.

Run as a program with the descriptor of its connection. An outcome is sent in time, and word that it
is `FREE` once all processes of the program have ended. It ends when the other side does; what it
runs at that moment dies with it.
"""

import contextlib
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from metis.errors import MetisError
from metis.tasks.code.pool import FREE, LIBRARIES
from metis.tasks.code.sandbox import scored


def main() -> None:
    """Answer requests, each a program with its tests and bounds, until there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # it is inherited where it is ignored
    connection = Connection(int(sys.argv[1]))
    named = os.environ.get(LIBRARIES, "").split(os.pathsep)
    libraries = [Path(folder) for folder in named if folder]
    with contextlib.suppress(EOFError, ConnectionError):
        connection.send(None)
        while True:
            program, tests, limits, until = connection.recv()
            try:
                seconds = until - time.monotonic()
                with scored(program, tests, limits, libraries, seconds) as outcome:
                    connection.send(outcome)
            except MetisError as error:
                connection.send(error)
            connection.send(FREE)


if __name__ == "__main__":
    main()
