"""A worker of the scoring pool: a process that runs one program after the other in the sandbox.

Run as a program with the descriptor of its connection. It ends when the other side does; what it
runs at that moment dies with it.
"""

import contextlib
import sys
from multiprocessing.connection import Connection

from metis.tasks.code.sandbox import run


def main() -> None:
    """Answer requests, each a program with its tests and limits, until there are no more."""
    connection = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            connection.send(run(*connection.recv()))


if __name__ == "__main__":
    main()
