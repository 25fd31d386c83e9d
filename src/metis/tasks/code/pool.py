"""The scoring pool: worker processes that run programs while others are generated.

A program starts when a worker is free, so that its time limits do not include waiting for a core.
Tests not finished shortly before the reward's deadline count as timeouts; a worker whose program is
still being cleaned up then is used again afterwards. A worker that is killed or hangs is replaced,
and its program run again, up to `ATTEMPTS` times; then the rollout fails. If nobody waits for a
reward any more, its worker is killed and replaced.
"""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from metis.errors import MetisError
from metis.tasks.abandonment import this_call
from metis.tasks.code.tests import Limits, Outcome, Test
from metis.tasks.processes import ProcessPool, Worker, WorkerEnded

LIBRARIES = "METIS_SANDBOX_LIBRARIES"
"""Environment variable: folders of libraries for programs, as made by `pip install --target`."""
ATTEMPTS = 3
GRACE = 60.0
"""Seconds beyond the limits of all tests after which a worker counts as hung."""
SPARE = 3.0
"""Seconds before a call's deadline that are reserved for ending the program and replying."""
FREE = "free"
"""A worker's message that all processes of its last program have ended."""


class ScoredProgram(NamedTuple):
    """The outcome of a program, and how often it was run again."""

    outcome: Outcome
    rescored: int


class WorkerLost(RuntimeError):
    """All workers that ran a program were killed or hung."""

    def __str__(self) -> str:
        return f"{ATTEMPTS} workers in a row were killed or hung while they ran this program"


class SandboxPool(ProcessPool):
    """At most `workers` processes that score programs, started on demand."""

    def __init__(self, workers: int) -> None:
        super().__init__(("-m", "metis.tasks.code.worker"), workers)

    def run(self, program: str, tests: Sequence[Test], limits: Limits) -> ScoredProgram:
        """Run a program against its tests.

        Raises WorkerLost if no worker survives it, MetisError if none can run it, and Abandoned
        if nobody waits for the reward any more."""
        for attempt in range(ATTEMPTS):
            with suppress(WorkerEnded):
                return ScoredProgram(self._outcome(program, tests, limits), attempt)
        raise WorkerLost

    def _outcome(self, program: str, tests: Sequence[Test], limits: Limits) -> Outcome:
        most = len(tests) * limits.wall_seconds
        call = this_call()
        worker = self.take(call=call)
        until = min(call.deadline - SPARE, time.monotonic() + most + GRACE / 2)
        try:
            with call.ended_by(worker.kill):
                answer: Outcome | MetisError = worker.ask(
                    (program, tuple(tests), limits, until), most + GRACE
                )
        except BaseException:
            self.drop(worker)
            raise
        self._free(worker, until + SPARE / 2 - time.monotonic())
        if isinstance(answer, MetisError):
            raise answer
        return answer

    def _free(self, worker: Worker, seconds: float) -> None:
        """Return a worker to the pool: now if it is free within `seconds`, else from a thread."""
        if worker.says(FREE, max(0.0, seconds)):
            self.give(worker)
        else:
            threading.Thread(target=self._free_later, args=(worker,), daemon=True).start()

    def _free_later(self, worker: Worker) -> None:
        if worker.says(FREE, GRACE):
            self.give(worker)
        else:
            self.drop(worker)


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_making = threading.Lock()


def shared(workers: int = 0) -> SandboxPool:
    """The pool of this size, shared in the process; 0 is one worker per core."""
    with _making:
        return _shared(workers or cores())


@cache
def _shared(workers: int) -> SandboxPool:
    return SandboxPool(workers)
