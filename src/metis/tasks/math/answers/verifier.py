"""The second opinion: math-verify in a few worker processes with a hard time limit.

math-verify keeps its own time limits with signals, which only work in a main thread and cannot stop
a long integer power. Here every question goes to a process that is killed when it takes too long,
so an answer costs at most its limit. It is decided before its call is late: where no worker is free
by then, or its time is not enough, it is not equal. A worker that is ended from outside, or hangs,
is replaced and asked again once. Workers are programs of their own
(`worker.py`): no fork of a process that holds a model, nothing to guard in anyone's main module.
"""

import importlib.util
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future
from contextlib import suppress

from metis.errors import MetisError, pip_install, require
from metis.tasks.abandonment import this_call
from metis.tasks.math.answers import worker

REMEMBERED = 10_000
"""Opinions kept: the rollouts of a group often agree in their answer. One takes up to 4 kB."""
START = 300.0
"""Seconds in which a worker has to be ready."""
GRACE = 20.0
"""Seconds beyond the time limit after which a worker that has not replied is killed itself."""
LONGEST_WAIT = 1e6
"""Seconds that a system call can wait."""
SPARE = 3.0
"""Seconds that are kept, of a call with a deadline, to answer in time; at most a quarter."""


class Verifier:
    """Asks at most `workers` processes at a time whether answers are equal.

    May be called from any thread. A process is started when it is first needed, and ends with
    `close`, with this object, or with the program. After a fork the child starts its own.
    """

    def __init__(self, seconds: float = 2.0, workers: int = 2) -> None:
        require(seconds > 0, "seconds", seconds, "use a time limit above 0")
        require(workers > 0, "workers", workers, "use at least 1")
        if importlib.util.find_spec("math_verify") is None:
            raise MetisError(
                f"task.verify = true needs math-verify: {pip_install('math')}, or task.verify=false"
            )
        self.seconds, self.workers = seconds, workers
        self._begin()
        _LIVING.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._opinions: dict[tuple[str, str], Future[bool]] = {}
        self._started: list[_Worker] = []
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._idle.put(None)
        self._finalizer = weakref.finalize(self, _end_all, self._started, os.getpid())

    def same(self, answer: str, reference: str) -> bool:
        """True if math-verify finds them equal; one that takes too long is not, nor one for which
        there is no time until the deadline of the call that asks."""
        key, until = (answer, reference), _until()
        with self._lock:
            opinion = self._opinions.get(key)
            asked = opinion is not None
            if opinion is None:
                opinion = self._opinions[key] = Future()
                if len(self._opinions) > REMEMBERED:
                    del self._opinions[next(iter(self._opinions))]
        if not asked:
            try:
                reply = self._ask(answer, reference, until)
                if reply == LATE:
                    self._opinions.pop(key, None)
                opinion.set_result(reply == "same")
            except BaseException as error:
                self._opinions.pop(key, None)
                opinion.set_exception(error)
        try:
            return opinion.result(_left(until))
        except TimeoutError:
            return False

    def close(self) -> None:
        """End the processes; a later question starts new ones."""
        self._finalizer()
        self._begin()

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, answer: str, reference: str, until: float) -> str:
        try:
            return self._reply(answer, reference, until)
        except _Ended:
            return self._reply(answer, reference, until)

    def _reply(self, answer: str, reference: str, until: float) -> str:
        idle, started = self._idle, self._started
        try:
            process = idle.get(timeout=_left(until))
        except queue.Empty:
            return LATE
        try:
            if process is None:
                process = _Worker()
                started.append(process)
            reply = self._asked(process, answer, reference, until)
        except BaseException as error:
            idle.put(None)
            if process in started:
                started.remove(process)
                process.kill()
            elif process is not None:
                raise RuntimeError("the verifier was closed while it was asked") from error
            raise
        idle.put(process)
        return reply

    def _asked(self, process: "_Worker", answer: str, reference: str, until: float) -> str:
        seconds = min(self.seconds, _left(until))
        if not seconds:
            return LATE
        request = json.dumps([answer, reference, seconds])
        reply = process.ask(request, min(seconds + GRACE, _left(until) + SPARE / 2))
        return LATE if reply == "killed" and seconds < self.seconds else reply


LATE = "late"
"""Stands for the opinion that there was no time for."""


def _until() -> float:
    """The time until which a question of this call is decided."""
    now = time.monotonic()
    left = this_call().deadline - now
    return now + left - min(SPARE, left / 4)


def _left(until: float) -> float:
    """The seconds until then, as far as anything can wait."""
    return min(max(0.0, until - time.monotonic()), LONGEST_WAIT)


class _Ended(RuntimeError):
    """A worker that was ended from outside, or that hangs."""

    def __str__(self) -> str:
        return "a worker of math-verify was ended from outside"


class _Worker:
    """One worker process and the pipes to it: unbuffered, so that no lock outlives a fork."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.replies = self.process.stdin, self.process.stdout
        said = self._read(START)
        if said != worker.READY:
            self.end()
            raise MetisError(
                f"math-verify does not start: {said}; mend it, or use task.verify=false"
            )

    def ask(self, line: str, seconds: float) -> str:
        try:
            self.requests.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise _Ended from None
        reply = self._read(seconds)
        if not reply:
            raise _Ended
        return reply

    def _read(self, seconds: float) -> str:
        """A line of it, or nothing when it has ended or takes too long."""
        waiting = select.poll()
        waiting.register(self.replies.fileno(), select.POLLIN)
        if not waiting.poll(min(seconds, LONGEST_WAIT) * 1000):
            return ""
        return os.read(self.replies.fileno(), 4096).decode().strip()

    def end(self) -> None:
        """Let it end its child, and wait for it, so that no zombie stays."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
            self._close()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it and its child, whatever they do."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self.requests.close()
        self.replies.close()

    def forget(self) -> None:
        """Drop a process that belongs to the parent of a fork."""
        self.process.returncode = 0
        self._close()


def _end_all(started: list[_Worker], owner: int) -> None:
    """End the processes of a verifier; those of a parent are not this process's to end."""
    while started and os.getpid() == owner:
        started.pop().end()


_LIVING: "weakref.WeakSet[Verifier]" = weakref.WeakSet()
_shared: Verifier | None = None


def shared() -> Verifier:
    """One verifier for the whole process, for functions that are handed none."""
    global _shared
    if _shared is None:
        _shared = Verifier()
    return _shared


def _after_fork() -> None:
    for verifier in list(_LIVING):
        for process in verifier._started:
            process.forget()
        verifier._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
