"""The scoring pool: programs run in worker processes beside generation.

A program waits until a worker is free, so its time limits are not spent waiting for a core. Tests
that it has not passed shortly before its call is late count as timeouts, and a worker whose program
has not come to its end by then is free when it has. A worker that is killed,
or hangs, is replaced and its program run again, `ATTEMPTS` times in all; then its rollout fails. A
program whose call is abandoned is killed with its worker, and leaves its place to the next. Workers
are processes of their own: no fork of one that holds a model, and none of generation's time.
"""

import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from functools import cache
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import NamedTuple

import metis
from metis.errors import MetisError, require
from metis.tasks.abandonment import AbandonableCall, Abandoned, this_call
from metis.tasks.code.tests import Limits, Outcome, Test

LIBRARIES = "METIS_SANDBOX_LIBRARIES"
"""The variable with the folders of packages for programs, as `pip install --target` makes them."""
ATTEMPTS = 3
GRACE = 60.0
"""Seconds beyond the limits of all its tests after which a worker hangs."""
SPARE = 3.0
"""Seconds that are kept, of a call with a deadline, to end a program and to answer in time."""
FREE = "free"
"""A worker's word that nothing of its last program is left."""


class ScoredProgram(NamedTuple):
    """The outcome of a program, and how often it had to be run again."""

    outcome: Outcome
    rescored: int


class WorkerLost(RuntimeError):
    """All workers that ran a program were killed, or hung."""

    def __str__(self) -> str:
        return f"{ATTEMPTS} workers that ran this program one after the other were killed or hung"


class SandboxPool:
    """At most `workers` processes, started when they are needed; any thread may ask.

    They end with `close`, with this object, or with the program.
    """

    def __init__(self, workers: int) -> None:
        require(workers > 0, "workers", workers, "use at least 1")
        self.workers = workers
        self._started: set[_Worker] = set()
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)
        self._finalizer = weakref.finalize(self, _end_all, self._started)

    def run(self, program: str, tests: Sequence[Test], limits: Limits) -> ScoredProgram:
        """Run a program; WorkerLost if no worker survives it, MetisError if none can run it,
        Abandoned if nobody waits for it any more."""
        most = len(tests) * limits.wall_seconds
        call = this_call()
        for attempt in range(ATTEMPTS):
            worker = self._place(call)
            try:
                if worker is None or worker.ended:
                    self._forget(worker)
                    worker = _Worker()
                    self._started.add(worker)
                until = min(call.deadline - SPARE, time.monotonic() + most + GRACE / 2)
                with call.ended_by(worker.process.kill):
                    request = (program, tuple(tests), limits, until)
                    answer = worker.ask(request, most + GRACE)
            except BaseException:
                self._forget(worker)
                self._idle.put(None)
                raise
            if answer is not None:
                self._free(worker, until + SPARE / 2 - time.monotonic())
                if isinstance(answer, MetisError):
                    raise answer
                return ScoredProgram(answer, attempt)
            self._forget(worker)
            self._idle.put(None)
        raise WorkerLost

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers that were started and not replaced."""
        return [worker.process.pid for worker in list(self._started)]

    def close(self) -> None:
        """End the workers; a later program starts new ones."""
        _end_all(self._started)

    def _place(self, call: AbandonableCall) -> "_Worker | None":
        """Wait for a worker, or for room for one."""
        worker = self._idle.get()
        try:
            call.require_wanted()
        except Abandoned:
            self._idle.put(worker)
            raise
        return worker

    def _free(self, worker: "_Worker", seconds: float) -> None:
        """Leave a worker to the next program, at once where it is free in so many seconds."""
        if worker.free(max(0.0, seconds)):
            self._idle.put(worker)
        else:
            threading.Thread(target=self._free_later, args=(worker,), daemon=True).start()

    def _free_later(self, worker: "_Worker") -> None:
        if worker.free(GRACE):
            self._idle.put(worker)
        else:
            self._forget(worker)
            self._idle.put(None)

    def _forget(self, worker: "_Worker | None") -> None:
        if worker is not None:
            worker.end()
            self._started.discard(worker)


class _Worker:
    """One process and the connection to it."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        self._using = threading.Lock()
        source = str(Path(metis.__file__).parents[1])
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "metis.tasks.code.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ask(self, request: object, seconds: float) -> Outcome | MetisError | None:
        """The outcome or its hindrance, or None of a worker that ended, or hung and was killed."""
        deadline = threading.Timer(seconds, self.process.kill)
        deadline.daemon = True
        deadline.start()
        try:
            with self._using:
                self.connection.send(request)
                answer: Outcome | MetisError = self.connection.recv()
        except (EOFError, OSError):
            return None
        finally:
            deadline.cancel()
        return answer

    def free(self, seconds: float) -> bool:
        """True once nothing of its last program is left; False where it is not so in time."""
        try:
            with self._using:
                return self.connection.poll(seconds) and self.connection.recv() == FREE
        except (EOFError, OSError):
            return False

    def end(self) -> None:
        """End it with what it runs, and wait for it, so that no zombie stays; any thread may, and
        more than one. Its descriptor is another's once it is closed, so nobody uses it then."""
        self.process.kill()
        self.process.wait()
        with self._using:
            self.connection.close()


def _end_all(started: set[_Worker]) -> None:
    while started:
        started.pop().end()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_making = threading.Lock()


def shared(workers: int = 0) -> SandboxPool:
    """One pool of a size for the whole process; 0 is a worker for every core."""
    with _making:
        return _shared(workers or cores())


@cache
def _shared(workers: int) -> SandboxPool:
    return SandboxPool(workers)
