"""A worker process of the scoring pool, which runs programs in the sandbox, one at a time.

It is started with the file descriptor of its connection. It sends an outcome by the deadline, and
`FREE` when all processes of the program have ended. It ends with its parent, and so does a program
that it is running.
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
    """Answer requests (a program, its tests, limits and deadline) until the connection closes."""
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
