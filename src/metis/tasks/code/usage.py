"""CPU time and memory of all processes of a sandbox together, read from its /proc.

Memory includes the kernel's. Data in sockets is kernel memory, even if no process has the socket
open any more: each socket counts with the maximum of its buffers, TCP sockets at most with what the
kernel reports for TCP.

The kernel's records of memory mappings count too: a mapping needs no resident page, and a fork
copies it, so neither RLIMIT_AS nor resident memory bounds them. They are counted in small steps
(`Mappings`).
"""

import contextlib
import functools
import os
import socket
import time
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
LARGEST = ("/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem")
FIRST = "1"
"""The process id of the driver, which is not part of a test."""
STATE, CPU_TIMES, THREADS, RESIDENT = 0, slice(11, 15), 17, 21
"""Fields of /proc/PID/stat after the name; CPU times include those of reaped children."""


class Usage(NamedTuple):
    cpu_seconds: float
    memory: int


def usage(processes: int) -> Usage:
    """Usage of all processes except the driver; `processes` is a descriptor of their /proc."""
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
    """Resident pages of a process, read from another thread if its first one has ended."""
    if fields[STATE] != b"Z" or int(fields[THREADS]) < 2:
        return int(fields[RESIDENT])
    largest = 0
    for thread in _threads(processes, name):
        with contextlib.suppress(OSError):
            largest = max(largest, int(_fields(processes, f"{name}/task/{thread}")[RESIDENT]))
    return largest


def _threads(processes: int, name: str) -> list[str]:
    """The thread ids of a process."""
    descriptor = os.open(f"{name}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=processes)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _in_sockets(processes: int) -> int:
    """Maximum bytes held by the sandbox's sockets."""
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
    """Parsed rows such as `TCP: inuse 2 mem 7`."""
    tables = {}
    with contextlib.suppress(OSError):
        for line in _content(processes, f"{FIRST}/net/{name}").decode().splitlines():
            title, _, rest = line.partition(":")
            words = rest.split()
            tables[title] = {words[at]: int(words[at + 1]) for at in range(0, len(words), 2)}
    return tables


def _content(folder: int, path: str) -> bytes:
    """The content of a small /proc file."""
    descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


@functools.cache
def _buffers() -> tuple[int, int]:
    """Maximum bytes of a socket's buffers, and the additional ones of a TCP socket."""
    with socket.socket(socket.AF_UNIX) as one:
        kinds = (socket.SO_SNDBUF, socket.SO_RCVBUF)
        default = max(one.getsockopt(socket.SOL_SOCKET, kind) for kind in kinds)
    largest = 0
    for path in LARGEST:
        with open(path) as file:
            largest += int(file.read().split()[-1])
    return default * 3 // 2, largest  # a last message may exceed its buffer by half


MAPPING = 1536
"""Bytes that a mapping counts as: the kernel's record of it after a few forks."""
BETWEEN_COUNTS = 0.25
"""Seconds between two counts."""
COUNTING = 0.005
"""Seconds per step: reading a process's maximum of 65,530 mappings takes about 0.03."""
PIECE = 1 << 16


class Mappings:
    """Number of memory mappings by process in a /proc, except the first process."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._counts: dict[str, int] = {}
        self._waiting: list[tuple[str, str]] = []
        self._open: tuple[str, int] | None = None
        self._asked = ""
        self._count, self._next = 0, time.monotonic() + BETWEEN_COUNTS

    def memory(self, processes: int) -> int:
        """Bytes of the mappings counted so far, of live processes; `processes` is the /proc."""
        names = {name for name in os.listdir(processes) if name.isdigit()} - {self._first}
        until = time.monotonic() + COUNTING
        if until >= self._next and not self._waiting and not self._open:
            self._waiting, self._asked = [(name, f"{name}/maps") for name in names], ""
            self._next = until + BETWEEN_COUNTS
        while self._step(processes) and time.monotonic() < until:
            pass
        self._counts = {name: self._counts[name] for name in self._counts if name in names}
        return MAPPING * sum(self._counts.values())

    def _step(self, processes: int) -> bool:
        """Continue counting; False if nothing is left to count."""
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
        """If a process's first thread has ended, read the mappings from its other threads."""
        threads = [each for each in self._waiting if each[0] == name]
        if self._count:
            self._waiting = [each for each in self._waiting if each not in threads]
        elif not threads and self._asked != name:
            self._asked = name
            with contextlib.suppress(OSError):
                self._waiting += [
                    (name, f"{name}/task/{each}/maps")
                    for each in _threads(processes, name)
                    if each != name
                ]

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None
