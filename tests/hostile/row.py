"""A row of the tables of hostile programs."""

import platform
from dataclasses import dataclass

import system_calls
from metis.tasks.sandbox import Io, Test

ESCAPED = Io("", "escaped")


@dataclass(frozen=True)
class Row:
    """A program, the kinds of result that it may come to, and a part of their detail.

    In the program @PORT@, @SOCKET@, @MARKER@ and @FILE@ stand for a port of the host's loopback
    that is listened on, a socket of the host's abstract namespace, a word for the names of files,
    and a file of the host that all can read.
    """

    program: str
    kind: str
    detail: str = ""
    tests: tuple[Test, ...] = (ESCAPED,)


NUMBERS = {**system_calls.NUMBERS[platform.machine()], "getpid of x32": 0x40000027}
CALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(ctypes.c_long({number}), {arguments}) < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
print("escaped", flush=True)
os._exit(0)
"""


def system_call(name: str, arguments: str) -> str:
    """A program that makes a system call."""
    return CALL.format(number=NUMBERS[name], arguments=arguments)
