"""A running sandbox for one program: its driver inside, and the two pipes to it."""

import contextlib
import dataclasses
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from metis.tasks.code import bubblewrap
from metis.tasks.code.bubblewrap import SandboxMissing
from metis.tasks.code.inside import frames, plain
from metis.tasks.code.limits import Limits
from metis.tasks.code.outcome import Kind

INSIDE = ("plain.py", "frames.py", "child.py", "driver.py")
PATIENCE = 30.0
"""Seconds that a sandbox may take to start on a busy machine."""
GRACE = 5.0
"""Seconds that a driver may take beyond a test's wall time."""


class Dead(Exception):
    """The sandbox is gone, or does not answer; `kind` is what that makes of the test."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind: Kind = kind
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class End:
    """The end of a test's process, as the driver saw it.

    reason: `exit`, or the limit that ended it, or `stopped`.
    status: of the process, negative for a signal.
    """

    reason: str
    status: int
    stdout: str
    seconds: float
    cpu: float
    clean: bool


class Session:
    """A sandbox that has compiled a program and waits for tests."""

    def __init__(
        self, program: str, limits: Limits, libraries: Sequence[Path] = (), room: int = 0
    ) -> None:
        """`room` is the size of the largest input in bytes."""
        self.limits, self.running = limits, False
        size = (limits.file_mb << 20) + room
        with contextlib.ExitStack() as opened:
            sources = {f"/inside/{name}": opened.enter_context(_source(name)) for name in INSIDE}
            syscalls = opened.enter_context(_sealed(bubblewrap.filter_program()))
            self._errors = os.memfd_create("errors")
            python = bubblewrap.interpreter().path
            words = bubblewrap.command(size, libraries, sources, syscalls, ())
            self._process = _launch(
                [*words, python, "-S", "-s", "-B", "-X", "utf8", "/inside/driver.py"],
                (*sources.values(), syscalls),
                self._errors,
            )
        self._begin(program, libraries)

    def _begin(self, program: str, libraries: Sequence[Path]) -> None:
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._to, self._from):
            os.set_blocking(descriptor, False)
        self._inbox = frames.Inbox(1 << 40)
        self._arrived: list[tuple[bytes, bytes]] = []
        self._deadline = time.monotonic() + PATIENCE
        given = {
            "program": program,
            "limits": dataclasses.asdict(self.limits),
            "libraries": [str(path) for path in libraries],
        }
        self.failure: tuple[str, str] | None = None
        try:
            self._send(b"P", json.dumps(given).encode())
            _, content = self._receive()
        except Dead as dead:
            said = self._said()
            self.close()
            if said.startswith("bwrap:"):
                raise SandboxMissing(_unusable(said)) from None
            self.failure = ("error", f"{dead.detail} while the program was compiled {said}".strip())
            return
        failure = json.loads(content)
        self.failure = tuple(failure) if failure else None

    def start(self, role: str, stdin: str = "", **test: Any) -> None:
        """Start a test in the sandbox."""
        self.running = True
        self._deadline = time.monotonic() + self.limits.wall_seconds + GRACE
        self._send(b"T", json.dumps({"role": role, "stdin": stdin, **test}).encode())

    def tell(self, *message: Any) -> None:
        """Send a message to the test's process."""
        self._send(b"M", plain.dumps(message))

    def hear(self) -> tuple[Any, ...] | End:
        """The next message of the test's process, or its end."""
        letter, content = self._receive()
        if letter == b"E":
            self.running = False
            return End(**json.loads(content))
        try:
            message = plain.loads(content)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError, MemoryError):
            return ()
        return message if isinstance(message, tuple) else ()

    def stop(self) -> None:
        """End the test at once; its end is still to be heard."""
        self._send(b"S", b"")

    def _send(self, letter: bytes, content: bytes) -> None:
        left = memoryview(frames.frame(letter, content))
        while left:
            self._wait([], [self._to])
            try:
                left = left[os.write(self._to, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise Dead("error", "the sandbox ended") from None

    def _receive(self) -> tuple[bytes, bytes]:
        while not self._arrived:
            self._wait([self._from], [])
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise Dead("error", "the sandbox ended")
            self._arrived += self._inbox.add(chunk)
        return self._arrived.pop(0)

    def _wait(self, readers: list[int], writers: list[int]) -> None:
        poller = select.poll()
        for descriptor in readers:
            poller.register(descriptor, select.POLLIN)
        for descriptor in writers:
            poller.register(descriptor, select.POLLOUT)
        if not poller.poll(max(0.0, 1000 * (self._deadline - time.monotonic()))):
            raise Dead("timeout", "the sandbox did not answer")

    def _said(self) -> str:
        size = os.fstat(self._errors).st_size
        lines = os.pread(self._errors, min(size, 4096), 0).decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End all processes of the sandbox; none is left when this returns."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1


def _launch(
    words: list[str], descriptors: tuple[int, ...], errors: int
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            pass_fds=descriptors,
            start_new_session=True,
            env={},
            **bubblewrap.identity(),  # type: ignore[call-overload]
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxMissing(_unusable(str(error))) from error


def _unusable(reason: str) -> str:
    return (
        f"bubblewrap does not work here ({reason}): it needs version 0.8 or newer and user "
        "namespaces; in a container, allow these (docker run --security-opt seccomp=unconfined); "
        "on Ubuntu, sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    )


@contextlib.contextmanager
def _sealed(content: bytes) -> Iterator[int]:
    """A descriptor of a file in memory with this content."""
    descriptor = os.memfd_create("metis")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _source(name: str) -> "contextlib.AbstractContextManager[int]":
    return _sealed((files("metis.tasks.code.inside") / name).read_bytes())
