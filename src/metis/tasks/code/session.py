"""A running sandbox for one program: its driver, the pipes to it, and the watch on its limits."""

import contextlib
import dataclasses
import functools
import json
import math
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from metis.tasks.code import bubblewrap
from metis.tasks.code.bubblewrap import SandboxMissing
from metis.tasks.code.inside import frames
from metis.tasks.code.tests import Kind, Limits
from metis.tasks.code.watch import INTERVAL, TIMEOUT, Watch

INSIDE = "/inside/metis/tasks/code/inside"
FILES = ("plain.py", "frames.py", "pristine.py", "child.py", "driver.py")
PATIENCE = 30.0
"""Seconds within which a sandbox must start, on a busy machine too."""


class Dead(Exception):
    """The sandbox died or does not answer; `kind` is the test's result."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind: Kind = kind
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class End:
    """The end of a test's process, as reported by the driver.

    reason: `exit`, `stopped`, or `output` if it wrote too much.
    status: the exit status, negative for a signal.
    """

    reason: str
    status: int
    stdout: str
    seconds: float
    cpu: float
    clean: bool


class Session:
    """A sandbox that has compiled a program and waits for tests.

    Limits are checked while this process waits for it, or for a session `beside` it. A test that
    exceeds one ends the whole sandbox: it is killed at once, and `close` waits for its end, which
    may take seconds if its processes have much memory to free.
    """

    def __init__(
        self,
        program: str,
        limits: Limits,
        libraries: Sequence[Path] = (),
        room: int = 0,
        files: Mapping[str, bytes] | None = None,
        until: float = math.inf,
    ) -> None:
        """`room` is the size of the largest input in bytes; `files` are more files for the program;
        `until` is the deadline of all tests."""
        self.limits, self.running, self._until = limits, False, until
        self.last: End | None = None
        self.beside: tuple[Session, ...] = ()
        self._began = self._looked = time.monotonic()
        self._watch: Watch | None = None
        contents = {**_sources(), **(files or {})}
        with contextlib.ExitStack() as opened:
            given = {path: opened.enter_context(_file(contents[path])) for path in contents}
            syscalls = opened.enter_context(_file(bubblewrap.filter_program()))
            size = (limits.file_mb << 20) + room
            words = bubblewrap.command(size, libraries, given, syscalls)
            words += [bubblewrap.interpreter().path, "-S", "-s", "-B", "-X", "utf8"]
            errors = opened.enter_context(_file(b""))
            handed, theirs = map(opened.enter_context, socket.socketpair())
            words += [f"{INSIDE}/driver.py", str(theirs.fileno())]
            descriptors = (*given.values(), syscalls, theirs.fileno())
            self._process = _launch(words, descriptors, errors)
            self._errors = os.dup(errors)
            self._begin(program, libraries, handed)
        self.failure = self._compilation()

    def _begin(self, program: str, libraries: Sequence[Path], handed: socket.socket) -> None:
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._to, self._from):
            os.set_blocking(descriptor, False)
        self._inbox = frames.Inbox(1 << 40)
        self._arrived: list[tuple[bytes, bytes]] = []
        self._deadline = min(time.monotonic() + PATIENCE, self._until)
        given = {
            "program": program,
            "limits": dataclasses.asdict(self.limits),
            "libraries": bubblewrap.library_paths(len(libraries)),
        }
        try:
            self._send(b"P", json.dumps(given).encode())
            self._receive()
        except Dead as dead:
            said = self._said() or dead.detail
            self.close()
            if time.monotonic() >= self._until:
                raise
            raise SandboxMissing(_unusable(said)) from None
        self._watch = Watch(handed, self.limits)

    def _compilation(self) -> tuple[Kind, str] | None:
        """The kind and message of a compilation error, or None."""
        self._deadline = min(time.monotonic() + self.limits.wall_seconds, self._until)
        try:
            failure = json.loads(self._receive()[1])
        except Dead as dead:
            self.close(self._until)
            return dead.kind, f"{dead.detail} in its compilation"
        self._deadline = math.inf
        return tuple(failure) if failure else None

    def start(self, role: str, stdin: str = "", **test: Any) -> None:
        """Start a test in the sandbox."""
        self.running, self.last = True, None
        self._began = self._looked = time.monotonic()
        self._deadline = min(self._began + self.limits.wall_seconds, self._until)
        self._send(b"T", json.dumps({"role": role, "stdin": stdin, **test}).encode())

    def tell(self, *message: Any) -> None:
        """Send a message to the test's process."""
        self._send(b"M", json.dumps(message).encode())

    def hear(self) -> list[Any] | End:
        """The next message of the test's process (empty if malformed), or its end."""
        letter, content = self._receive()
        if letter == b"E":
            self.running, self.last = False, End(**json.loads(content))
            self._deadline = math.inf
            return self.last
        try:
            message = json.loads(content)
        except (ValueError, RecursionError):
            return []
        return message if isinstance(message, list) else []

    def stop(self) -> None:
        """End the test at once; `hear` then returns its end."""
        self._send(b"S", b"")

    def _send(self, letter: bytes, content: bytes) -> None:
        left = memoryview(frames.frame(letter, content))
        while left:
            self._wait(self._to, select.POLLOUT)
            try:
                left = left[os.write(self._to, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise Dead("error", "the sandbox ended") from None

    def _receive(self) -> tuple[bytes, bytes]:
        while not self._arrived:
            self._wait(self._from, select.POLLIN)
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise Dead("error", "the sandbox ended")
            self._arrived += self._inbox.add(chunk)
        return self._arrived.pop(0)

    def _wait(self, descriptor: int, event: int) -> None:
        poller = select.poll()
        poller.register(descriptor, event)
        while True:
            for session in (self, *self.beside):
                session.hold()
            if poller.poll(1000 * max(0.0, min(INTERVAL, self._deadline - time.monotonic()))):
                return

    def hold(self) -> None:
        """Check the limits, if it is time to; kill the sandbox and raise Dead above one."""
        now = time.monotonic()
        late = now >= self._deadline
        if not late and (not self.running or now < self._looked + INTERVAL):
            return
        excess = self._watch.excess(late) if self._watch and self.running else None
        self._looked = time.monotonic()
        if excess or late:
            if self._watch:
                self._watch.kill()
            raise Dead(*(excess or TIMEOUT))

    @property
    def seconds(self) -> float:
        """Seconds of the last test, or of the running one so far."""
        return self.last.seconds if self.last else time.monotonic() - self._began

    def _said(self) -> str:
        """The last line of stderr, from bubblewrap or the driver."""
        size = os.fstat(self._errors).st_size
        lines = os.pread(self._errors, min(size, 4096), 0).decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""

    def close(self, until: float = math.inf) -> bool:
        """End all processes of the sandbox; False if some are left at the deadline.

        It then runs no more tests, and must be closed again."""
        if self._watch is not None:
            self._watch.kill()
            if not self._watch.ended(max(0.0, until - time.monotonic())):
                return False
            self._watch = None
        else:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1
        return True


def _launch(words: list[str], descriptors: tuple[int, ...], errors: int) -> subprocess.Popen[bytes]:
    nobody = bubblewrap.identity()
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise SandboxMissing(
            "this process ignores SIGCHLD, and so would the sandbox, in which the CPU time of "
            "children is lost then: signal.signal(signal.SIGCHLD, signal.SIG_DFL)"
        )
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
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else [],
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
def _file(content: bytes) -> Iterator[int]:
    """The descriptor of an in-memory file with this content."""
    descriptor = os.memfd_create("metis")
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@functools.cache
def _sources() -> dict[str, bytes]:
    """The driver's source files, by their path in the sandbox."""
    folder = resources.files("metis.tasks.code.inside")
    return {f"{INSIDE}/{name}": (folder / name).read_bytes() for name in FILES}
