"""Worker processes, handed one request at a time, killed when it takes too long, and replaced.

A worker is a program of its own: no fork of a process that holds a model, and nothing to guard in
anyone's main module. It gets the descriptor of its connection as its last argument. Its first
message is None, or what keeps it from working; then it answers one request after the other.
"""

import math
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Self

import metis
from metis.errors import MetisError, require
from metis.tasks.abandonment import AbandonableCall

START = 300.0
"""Seconds in which a worker has to be ready."""
END = 5.0
"""Seconds in which a worker that is asked to end has to do so."""


class WorkerEnded(RuntimeError):
    """A worker that was ended from outside, or that hung and was killed."""

    def __str__(self) -> str:
        return "a worker process was ended from outside, or hung"


class PoolClosed(RuntimeError):
    """A pool that was closed while one of its workers was busy."""

    def __str__(self) -> str:
        return "the worker processes were closed while they were asked"


class NoWorkerFree(TimeoutError):
    """All workers were busy for as long as one could wait."""


class ProcessPool:
    """At most `workers` processes of a program, started when they are needed; any thread may ask.

    Whoever takes a worker either gives it back or drops it. Workers end with `close`, with this
    object, or with the program. After a fork the child starts its own.
    """

    def __init__(self, program: Sequence[str], workers: int, python: str = sys.executable) -> None:
        """`program` is what Python is called with: a file, or `-m` and a module.

        A `python` of another environment finds nothing of this one there.
        """
        require(workers > 0, "workers", workers, "use at least 1")
        self.program, self.workers, self.python = program, workers, python
        self._begin()
        _LIVING.add(self)

    def _begin(self) -> None:
        self._started: set[Worker] = set()
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(self.workers):
            self._idle.put(None)
        self._finalizer = weakref.finalize(self, _end_all, self._started)

    def take(self, seconds: float = math.inf, call: AbandonableCall | None = None) -> "Worker":
        """A worker that is free in so many seconds; Abandoned where nobody waits for the call by
        then."""
        try:
            worker = self._idle.get(timeout=None if math.isinf(seconds) else seconds)
        except queue.Empty:
            raise NoWorkerFree from None
        try:
            if call is not None:
                call.require_wanted()
            if worker is None or worker.ended:
                if worker is not None:
                    self._kill(worker)
                worker = Worker(self.program, self.python)
                self._started.add(worker)
        except BaseException:
            self._idle.put(worker)
            raise
        return worker

    def give(self, worker: "Worker") -> None:
        """Leave a worker to the next request."""
        self._idle.put(worker)

    def drop(self, worker: "Worker") -> None:
        """Kill a worker, and leave its place to a new one."""
        self._kill(worker)
        self._idle.put(None)

    def _kill(self, worker: "Worker") -> None:
        worker.kill()
        worker.close()
        self._started.discard(worker)

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers that were started and not replaced."""
        return [worker.process.pid for worker in list(self._started)]

    def close(self) -> None:
        """End the workers; a later request starts new ones."""
        _end_all(self._started)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _after_fork(self) -> None:
        """Leave the processes to the parent."""
        self._finalizer.detach()
        for worker in self._started:
            worker.forget()
        self._begin()


class Worker:
    """One process and the connection to it; only one thread at a time may ask it."""

    def __init__(self, program: Sequence[str], python: str) -> None:
        self.connection, theirs = Pipe()
        self._using = threading.Lock()
        self._closed = False
        environment = dict(os.environ)
        if python == sys.executable:
            source = str(Path(metis.__file__).parents[1])
            path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
            environment["PYTHONPATH"] = path
        with theirs:
            self.process = subprocess.Popen(
                [python, "-P", *program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        try:
            with self._killed_after(START):
                hindrance = self.connection.recv()
            if hindrance is not None:
                raise MetisError(hindrance)
        except BaseException:
            self.kill()
            self.close()
            raise

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ask(self, request: object, seconds: float) -> Any:
        """The reply to a request; a worker that has none in so many seconds is killed."""
        with self._killed_after(seconds):
            self.connection.send(request)
            return self.connection.recv()

    def says(self, word: object, seconds: float) -> bool:
        """True where the next that comes is this word; False where that is not so in time."""
        try:
            with self._using:
                return bool(self.connection.poll(seconds)) and self.connection.recv() == word
        except (EOFError, OSError):
            return False

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        """Use the connection for so many seconds at most."""
        deadline = threading.Timer(seconds, self.kill)
        deadline.daemon = True
        deadline.start()
        try:
            with self._using:
                yield
        except (EOFError, OSError):
            raise (PoolClosed if self._closed else WorkerEnded) from None
        finally:
            deadline.cancel()

    def kill(self) -> None:
        """End it and what it has started, whatever they do; any thread may, and more than one."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Let it end what it has started, and itself."""
        self._closed = True
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END)
        self.kill()
        self.close()

    def close(self) -> None:
        """Wait for its end, so that no zombie stays. Its descriptor is another's once it is closed,
        so nobody uses it then."""
        self.process.wait()
        with self._using:
            self.connection.close()

    def forget(self) -> None:
        """Drop a process that belongs to the parent of a fork."""
        self.process.returncode = 0
        self.connection.close()


def _end_all(started: set[Worker]) -> None:
    while started:
        started.pop().end()


_LIVING: "weakref.WeakSet[ProcessPool]" = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_LIVING):
        pool._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
