"""The scoring pool: programs run in worker processes beside generation.

A program waits until a worker is free, so its time limits are not spent waiting for a core. Tests
that it has not passed shortly before its call is late count as timeouts, and a worker whose program
has not come to its end by then is free when it has. A worker that is killed,
or hangs, is replaced and its program run again, `ATTEMPTS` times in all; then its rollout fails. A
program whose call is abandoned is killed with its worker, and leaves its place to the next.
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


class SandboxPool(ProcessPool):
    """At most `workers` processes that score programs, started when they are needed."""

    def __init__(self, workers: int) -> None:
        super().__init__(("-m", "metis.tasks.code.worker"), workers)

    def run(self, program: str, tests: Sequence[Test], limits: Limits) -> ScoredProgram:
        """Run a program; WorkerLost if no worker survives it, MetisError if none can run it,
        Abandoned if nobody waits for it any more."""
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
        """Leave a worker to the next program, at once where it is free in so many seconds."""
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
