"""Calls in threads beside generation: many at a time, each with a time limit.

A coroutine has its thread to itself, and an event loop of its own: one that blocks is late like a
plain function that does, and holds up no other. A call that is late is abandoned and its thread
replaced; nothing waits for it, not even the end of the process.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from metis.tasks.abandonment import AbandonableCall, current

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Job:
    call: Callable[[], Any]
    name: str
    answer: "Future[Any]" = field(default_factory=Future)
    running: AbandonableCall = field(default_factory=AbandonableCall)
    started: float = 0.0


class Workers:
    """At most `places` threads, made when they are needed; `timeout` in seconds a call."""

    def __init__(self, timeout: float, places: int) -> None:
        self.timeout, self.places = timeout, places
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.workers: list[_Worker] = []
        self.unfinished = 0
        self.counting = threading.Condition()
        self.closed = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True, name="rewards")
        self.watcher.start()

    def submit(self, call: "Callable[[], T | Awaitable[T]]", name: str) -> "Future[T]":
        """Start a call as soon as there is a place for it; any thread may ask."""
        job = _Job(call, name)
        self.jobs.put(job)
        self.count(1)
        return cast("Future[T]", job.answer)

    def wait_below(self, count: int) -> None:
        """Wait until fewer calls than that are unfinished."""
        with self.counting:
            self.counting.wait_for(lambda: self.unfinished < count)

    def close(self) -> None:
        """Let threads end when their calls do."""
        self.closed.set()
        self.watcher.join()
        for _ in self.workers:
            self.jobs.put(None)

    def count(self, more: int, gone: "_Worker | None" = None) -> None:
        """Keep account of unfinished calls and of threads; start one where there are too few."""
        with self.counting:
            self.unfinished += more
            self.counting.notify_all()
            if gone is not None:
                self.workers.remove(gone)
            if len(self.workers) < min(self.unfinished, self.places):
                self.workers.append(_Worker(self))

    def _watch(self) -> None:
        """Fail calls that are late. One that has not begun cannot be so for `timeout` seconds."""
        pause = self.timeout
        while not self.closed.wait(pause):
            now, pause = time.monotonic(), self.timeout
            for worker in list(self.workers):
                if (job := worker.job) is None:
                    continue
                left = job.started + self.timeout - now
                if left > 0:
                    pause = min(pause, left)
                elif _settle(job, self.late(job)):
                    job.running.abandon()
                    self.count(-1, gone=worker)

    def late(self, job: _Job) -> TimeoutError:
        limit = f"engine.reward_timeout = {self.timeout} seconds"
        return TimeoutError(f"{job.name} took longer than {limit}")


class _Worker:
    """A thread that takes one job after the other, until one of them is late."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.job: _Job | None = None
        threading.Thread(target=self._work, daemon=True, name="reward").start()

    def _work(self) -> None:
        jobs = self.workers.jobs
        while (job := jobs.get()) is not None:
            job.started = time.monotonic()
            job.running.deadline = job.started + self.workers.timeout
            self.job = job
            current.set(job.running)
            if not _settle(job, self._outcome(job)):
                return
            self.job = None
            current.set(None)
            self.workers.count(-1)
            del job  # an idle thread keeps no episode alive

    def _outcome(self, job: _Job) -> Any:
        try:
            value = job.call()
            return asyncio.run(self._awaited(value, job)) if inspect.isawaitable(value) else value
        except Exception as error:
            return error
        except BaseException as error:
            return RuntimeError(f"it tried to end the process: {error!r}")

    async def _awaited(self, value: Awaitable[Any], job: _Job) -> Any:
        try:
            async with asyncio.timeout(self.workers.timeout) as limit:
                return await value
        except TimeoutError:
            if limit.expired():
                return self.workers.late(job)
            raise


def _settle(job: _Job, outcome: Any) -> bool:
    """Answer a job with a value or an error; False when it has been answered before."""
    try:
        if isinstance(outcome, Exception):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)
    except InvalidStateError:
        return False
    return True
