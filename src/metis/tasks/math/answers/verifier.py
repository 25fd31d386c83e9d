"""The last stage of the comparison: math-verify, in worker processes with a hard time limit.

math-verify's own time limits use signals, which only work in a main thread and cannot interrupt a
long integer power. Here each comparison runs in a process that is killed at the limit. If no worker
is free before the deadline of the reward call, or the time left is too short, the answers count as
different. A worker (`worker.py`) that is killed from outside or hangs is replaced, and asked once
more.
"""

import importlib.util
import threading
import time
from concurrent.futures import Future

from metis.errors import MetisError, pip_install, require
from metis.tasks.abandonment import this_call
from metis.tasks.math.answers import worker
from metis.tasks.processes import NoWorkerFree, ProcessPool, Worker, WorkerEnded

REMEMBERED = 10_000
"""Cached results: rollouts of a group often have the same answer. One takes up to 4 kB."""
GRACE = 20.0
"""Seconds beyond the time limit after which a worker that does not reply is killed."""
LONGEST_WAIT = 1e6
"""Maximum seconds that a system call can wait."""
SPARE = 3.0
"""Seconds reserved for replying before a call's deadline; at most a quarter of its time."""


class Verifier(ProcessPool):
    """Asks at most `workers` processes at a time whether answers are equal."""

    def __init__(self, seconds: float = 2.0, workers: int = 2) -> None:
        require(seconds > 0, "seconds", seconds, "use a time limit above 0")
        if importlib.util.find_spec("math_verify") is None:
            raise MetisError(
                f"task.verify = true needs math-verify: {pip_install('math')}, or task.verify=false"
            )
        self.seconds = seconds
        super().__init__((worker.__file__,), workers)

    def _begin(self) -> None:
        super()._begin()
        self._lock = threading.Lock()
        self._opinions: dict[tuple[str, str], Future[bool]] = {}

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
                opinion.set_result(reply == worker.SAME)
            except BaseException as error:
                self._opinions.pop(key, None)
                opinion.set_exception(error)
        try:
            return opinion.result(_left(until))
        except TimeoutError:
            return False

    def _ask(self, answer: str, reference: str, until: float) -> str:
        try:
            return self._reply(answer, reference, until)
        except WorkerEnded:
            return self._reply(answer, reference, until)

    def _reply(self, answer: str, reference: str, until: float) -> str:
        try:
            process = self.take(_left(until))
        except NoWorkerFree:
            return LATE
        try:
            reply = self._asked(process, answer, reference, until)
        except BaseException:
            self.drop(process)
            raise
        self.give(process)
        return reply

    def _asked(self, process: Worker, answer: str, reference: str, until: float) -> str:
        seconds = min(self.seconds, _left(until))
        if not seconds:
            return LATE
        most = min(seconds + GRACE, _left(until) + SPARE / 2)
        reply: str = process.ask((answer, reference, seconds), most)
        return LATE if reply == worker.KILLED and seconds < self.seconds else reply


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


_shared: Verifier | None = None


def shared() -> Verifier:
    """One verifier for the whole process, for functions that are handed none."""
    global _shared
    if _shared is None:
        _shared = Verifier()
    return _shared
