"""A thread pool for calls with a timeout, which run concurrently with generation.

A coroutine gets its own thread and event loop, so that a blocking one holds up no other. A call
that times out is abandoned and its thread replaced; not even process exit waits for it.
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
    """At most `places` threads, started on demand; `timeout` in seconds per call."""

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
        """Queue a call; thread-safe."""
        job = _Job(call, name)
        self.jobs.put(job)
        self.count(1)
        return cast("Future[T]", job.answer)

    def wait_below(self, count: int) -> None:
        """Wait until fewer than `count` calls are unfinished."""
        with self.counting:
            self.counting.wait_for(lambda: self.unfinished < count)

    def close(self) -> None:
        """Let threads end after their current calls."""
        self.closed.set()
        self.watcher.join()
        for _ in self.workers:
            self.jobs.put(None)

    def count(self, more: int, gone: "_Worker | None" = None) -> None:
        """Update the number of unfinished calls and threads; start a thread if needed."""
        with self.counting:
            self.unfinished += more
            self.counting.notify_all()
            if gone is not None:
                self.workers.remove(gone)
            if len(self.workers) < min(self.unfinished, self.places):
                self.workers.append(_Worker(self))

    def _watch(self) -> None:
        """Fail calls that time out, counted from their start."""
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
    """A thread that runs jobs until one of them times out."""

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
            del job  # do not keep the episode alive while idle

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
    """Set a job's result or error; False if it already has one."""
    try:
        if isinstance(outcome, Exception):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)
    except InvalidStateError:
        return False
    return True
