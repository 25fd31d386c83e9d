"""The CPU time and the memory that all processes of a test use together, as /proc tells of them.

Data in sockets is the kernel's memory, also that of sockets which nobody has open any more. A
socket counts as all that its buffers may hold; those of TCP grow, but not beyond what the kernel
holds for TCP in all.
"""

from __future__ import annotations  # the system's Python may be 3.9

import contextlib
import functools
import os
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
LARGEST = ("/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem")


class Usage(NamedTuple):
    cpu_seconds: float
    memory: int


def usage() -> Usage:
    """Of all processes but the first; CPU time includes that of children they waited for."""
    cpu = pages = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            cpu += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    return Usage(cpu / TICK, pages * PAGE + _in_sockets())


def _in_sockets() -> int:
    """The most that sockets of this network namespace hold, in bytes."""
    counts = _counts("sockstat")
    sockets = counts["sockets"]["used"]
    if not sockets:
        return 0
    any_socket, tcp_socket = _buffers()
    of_tcp = counts["TCP"]["inuse"] + _counts("sockstat6").get("TCP6", {}).get("inuse", 0)
    return sockets * any_socket + min(of_tcp * tcp_socket, counts["TCP"]["mem"] * PAGE)


def _counts(name: str) -> dict[str, dict[str, int]]:
    """Rows such as `TCP: inuse 2 mem 7`."""
    tables = {}
    with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}") as file:
        for line in file:
            title, _, rest = line.partition(":")
            words = rest.split()
            tables[title] = {words[at]: int(words[at + 1]) for at in range(0, len(words), 2)}
    return tables


@functools.cache
def _buffers() -> tuple[int, int]:
    """The bytes that one socket may hold, and one of TCP beside these."""
    import socket  # few programs have sockets, and it takes time

    with socket.socket(socket.AF_UNIX) as one:
        kinds = (socket.SO_SNDBUF, socket.SO_RCVBUF)
        default = max(one.getsockopt(socket.SOL_SOCKET, kind) for kind in kinds)
    largest = 0
    for path in LARGEST:
        with open(path) as file:
            largest += int(file.read().split()[-1])
    return default * 3 // 2, largest  # a last message may exceed its buffer by half
