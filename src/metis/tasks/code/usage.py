"""The CPU time and the memory that all processes of a sandbox use together, as its /proc tells.

Data in sockets is the kernel's memory, also that of sockets which nobody has open any more. A
socket counts as all that its buffers may hold; those of TCP grow, but not beyond what the kernel
holds for TCP in all.
"""

import contextlib
import functools
import os
import socket
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
LARGEST = ("/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem")
FIRST = "1"
"""The driver, which is no part of a test."""
STATE, CPU_TIMES, THREADS, RESIDENT = 0, slice(11, 15), 17, 21
"""Fields of `stat` after the name; CPU times include those of children that were waited for."""


class Usage(NamedTuple):
    cpu_seconds: float
    memory: int


def usage(processes: int) -> Usage:
    """Of all processes but the first; `processes` is a descriptor of the sandbox's /proc."""
    cpu = pages = 0
    for name in os.listdir(processes):
        if name.isdigit() and name != FIRST:
            with contextlib.suppress(OSError):
                fields = _fields(processes, name)
                cpu += sum(map(int, fields[CPU_TIMES]))
                pages += _pages(processes, name, fields)
    return Usage(cpu / TICK, pages * PAGE + _in_sockets(processes))


def _fields(processes: int, path: str) -> list[bytes]:
    return _content(processes, f"{path}/stat").rpartition(b")")[2].split()


def _pages(processes: int, name: str, fields: list[bytes]) -> int:
    """The resident pages of a process; where its first thread has ended, the others tell."""
    if fields[STATE] != b"Z" or int(fields[THREADS]) < 2:
        return int(fields[RESIDENT])
    descriptor = os.open(f"{name}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=processes)
    try:
        threads = os.listdir(descriptor)
    finally:
        os.close(descriptor)
    largest = 0
    for thread in threads:
        with contextlib.suppress(OSError):
            largest = max(largest, int(_fields(processes, f"{name}/task/{thread}")[RESIDENT]))
    return largest


def _in_sockets(processes: int) -> int:
    """The most that sockets of the sandbox hold, in bytes."""
    counts = _counts(processes, "sockstat")
    sockets = counts.get("sockets", {}).get("used", 0)
    if not sockets:
        return 0
    any_socket, tcp_socket = _buffers()
    of_tcp = counts["TCP"]["inuse"] + _counts(processes, "sockstat6").get("TCP6", {}).get(
        "inuse", 0
    )
    return sockets * any_socket + min(of_tcp * tcp_socket, counts["TCP"]["mem"] * PAGE)


def _counts(processes: int, name: str) -> dict[str, dict[str, int]]:
    """Rows such as `TCP: inuse 2 mem 7`."""
    tables = {}
    with contextlib.suppress(OSError):
        for line in _content(processes, f"{FIRST}/net/{name}").decode().splitlines():
            title, _, rest = line.partition(":")
            words = rest.split()
            tables[title] = {words[at]: int(words[at + 1]) for at in range(0, len(words), 2)}
    return tables


def _content(folder: int, path: str) -> bytes:
    """A small file of the kernel's."""
    descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


@functools.cache
def _buffers() -> tuple[int, int]:
    """The bytes that one socket may hold, and one of TCP beside these."""
    with socket.socket(socket.AF_UNIX) as one:
        kinds = (socket.SO_SNDBUF, socket.SO_RCVBUF)
        default = max(one.getsockopt(socket.SOL_SOCKET, kind) for kind in kinds)
    largest = 0
    for path in LARGEST:
        with open(path) as file:
            largest += int(file.read().split()[-1])
    return default * 3 // 2, largest  # a last message may exceed its buffer by half
