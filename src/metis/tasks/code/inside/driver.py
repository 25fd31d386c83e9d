"""Process 1 of a sandbox: forks a process for each test, passes on its messages, cleans up.

Processes in the sandbox cannot signal it (it is process 1) or read its memory and file descriptors
(it is not dumpable). It has no expected outputs, and passes on a test's messages unread. Time and
memory limits are enforced from outside, with the descriptors that it hands over first.
"""

from __future__ import annotations  # the system's Python may be 3.9

import _socket
import array
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

from metis.tasks.code.inside import child, frames

PR_SET_DUMPABLE = 4
HOME = "/tmp"
ROOT = "/inside"
HEADROOM = 65536
"""Bytes of messages allowed beyond the output limit."""


def main() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # a system out of memory ends programs first
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError("the driver's memory cannot be protected")
    _hand_over(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control, answer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    os.close(null)
    os.environ.pop("PYTHONPATH", None)
    given = json.loads(frames.read(control)[1])
    sys.path[:] = [path for path in sys.path if not path.startswith(ROOT)] + given["libraries"]
    frames.write(answer, b"R", b"")
    program, failure = _compiled(given["program"], given["limits"]["memory_mb"] << 20)
    frames.write(answer, b"R", json.dumps(failure).encode())
    gc.freeze()
    while True:
        letter, content = frames.read(control)
        if letter == b"T":
            run = Run(json.loads(content), given["limits"], control, answer)
            end = run.go(program)
            frames.write(answer, b"E", json.dumps(end).encode())


def _hand_over(to: int) -> None:
    """Send file descriptors of this process, of /proc and of the private folder."""
    kind = resource.RLIMIT_NOFILE
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (before[1], before[1]))  # it bounds what a user has under way
    folders = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in ("/proc", HOME)]
    handed = [os.pidfd_open(os.getpid()), *folders]
    channel, content = _socket.socket(fileno=to), array.array("i", handed)
    channel.sendmsg([b"H"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, content)])
    channel.close()
    resource.setrlimit(kind, before)
    for descriptor in handed:
        os.close(descriptor)


def _compiled(source: str, memory: int) -> tuple[Any, tuple[str, str] | None]:
    """The compiled program, or the kind and message of the failure."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, before[1]))
    try:
        return compile(source, "program.py", "exec", dont_inherit=True), None
    except MemoryError:
        return None, ("memory", "MemoryError in its compilation")
    except (SyntaxError, ValueError, OverflowError, RecursionError) as error:
        return None, ("error", f"{type(error).__name__}: {error}"[: child.LONGEST])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Run:
    """One test, from the start of its process to the cleanup."""

    def __init__(
        self, test: dict[str, Any], limits: dict[str, Any], control: int, answer: int
    ) -> None:
        self.test, self.limits = test, limits
        self.control, self.answer = control, answer
        self.room = limits["output_kb"] << 10
        self.output = bytearray()
        self.inbox = frames.Inbox(self.room + HEADROOM)
        self.waiting = bytearray()
        self.cpu = 0.0

    def go(self, program: Any) -> dict[str, Any]:
        null = os.open(os.devnull, os.O_RDWR)
        stdin = _file(self.test.pop("stdin").encode("utf-8", "replace"))
        pipes = [os.pipe() for _ in range(3)]
        (self.out, out), (down, self.down), (self.up, up) = pipes
        start = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            child.run(self.test, program, self.limits, [stdin, out, null, down, up])
        for descriptor in (stdin, out, null, down, up):
            os.close(descriptor)
        for descriptor in (self.out, self.down, self.up):
            os.set_blocking(descriptor, False)
        self.ended = os.pidfd_open(self.pid)
        reason = self._watch()
        status = self._sweep()
        reason = self._drain() or reason
        for descriptor in (self.out, self.down, self.up, self.ended):
            os.close(descriptor)
        return {
            "reason": reason,
            "status": status,
            "stdout": self.output.decode("utf-8", "replace"),
            "seconds": time.monotonic() - start,
            "cpu": self.cpu,
            "clean": _clear(HOME),
        }

    def _watch(self) -> str:
        """Pass messages until the process ends or must be killed; returns the reason."""
        self.poller = select.poll()
        for descriptor in (self.out, self.up, self.ended, self.control):
            self.poller.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in self.poller.poll():
                if reason := self._serve(descriptor):
                    return reason

    def _serve(self, descriptor: int) -> str:
        if descriptor == self.ended:
            return "exit"
        if descriptor == self.control:
            letter, content = frames.read(self.control)
            if letter == b"S":
                return "stopped"
            self.waiting += frames.frame(b"M", content)
            self.poller.register(self.down, select.POLLOUT)
            return ""
        if descriptor == self.down:
            return self._send()
        chunk = _read(descriptor)
        if chunk == b"":
            self.poller.unregister(descriptor)
        return self._take(descriptor, chunk or b"")

    def _send(self) -> str:
        try:
            del self.waiting[: os.write(self.down, self.waiting)]
        except BrokenPipeError:
            self.waiting.clear()
        if not self.waiting:
            self.poller.unregister(self.down)
        return ""

    def _take(self, descriptor: int, chunk: bytes) -> str:
        if descriptor == self.out:
            self.output += chunk
            return "output" if len(self.output) > self.room else ""
        try:
            for _, content in self.inbox.add(chunk):
                frames.write(self.answer, b"M", content)
        except ValueError:
            return "output"
        return ""

    def _sweep(self) -> int:
        """Kill all processes but this one; returns the exit status of the test's own."""
        status = -signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        while True:
            try:
                pid, ended, spent = os.wait4(-1, 0)
            except ChildProcessError:
                return status
            self.cpu += spent.ru_utime + spent.ru_stime
            if pid == self.pid:
                status = os.waitstatus_to_exitcode(ended)

    def _drain(self) -> str:
        for descriptor in (self.out, self.up):
            while chunk := _read(descriptor):
                if reason := self._take(descriptor, chunk):
                    return reason
        return ""


def _read(descriptor: int) -> bytes | None:
    """The bytes available now; empty at the end of file, None if there are none yet."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def _file(content: bytes) -> int:
    """An unnamed temporary file with this content, open at its start."""
    descriptor = os.open(HOME, os.O_TMPFILE | os.O_RDWR)
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _clear(folder: str) -> bool:
    """Empty a folder, and reset its mode and times; False if that fails."""
    try:
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            listed = list(entries)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                if not _clear(entry.path):
                    return False
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
        os.utime(folder)
    except (OSError, RecursionError):
        return False
    return True


if __name__ == "__main__":
    assert os.getpid() == 1, "it ends all processes that it can see"
    with contextlib.suppress(EOFError, BrokenPipeError):
        main()
