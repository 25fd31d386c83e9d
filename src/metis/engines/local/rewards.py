"""Rewards beside generation: concurrent, each with a time limit, none able to harm the run.

A reward may be a plain function, which gets a thread, or a coroutine. One that raises or takes too
long marks its rollout failed. A function that hangs keeps its thread, but not its place: later
rewards and the end of the process do not wait for it.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from metis.tasks.base import Episode


class RewardRunner:
    """Runs at most `workers` rewards at a time in the background; `result` waits for one.

    `waited` are the seconds that this took so far.
    """

    def __init__(self, timeout: float, workers: int = 16) -> None:
        self.timeout = timeout
        self.waited = 0.0
        self.places = asyncio.Semaphore(workers)
        self.idle: list[_Worker] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="rewards")
        self.thread.start()

    def submit(self, episode: Episode) -> "Future[float]":
        """Start the reward of a finished episode."""
        return asyncio.run_coroutine_threadsafe(self._run(episode.reward), self.loop)

    def result(self, future: "Future[float]") -> float | Exception:
        """The reward, or what went wrong with it."""
        start = time.perf_counter()
        try:
            return future.result()
        except Exception as error:
            return error
        finally:
            self.waited += time.perf_counter() - start

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        for worker in self.idle:
            worker.jobs.put(None)

    async def _run(self, reward: Callable[[], Any]) -> float:
        async with self.places, asyncio.timeout(self.timeout):
            try:
                value = await self._in_thread(reward)
                return float(await value if inspect.isawaitable(value) else value)
            except (SystemExit, KeyboardInterrupt) as error:
                raise RuntimeError(f"the reward tried to end the process: {error!r}") from None

    async def _in_thread(self, reward: Callable[[], Any]) -> Any:
        worker = self.idle.pop() if self.idle else _Worker(self.loop)
        answer: asyncio.Future[Any] = self.loop.create_future()
        worker.jobs.put((reward, answer))
        try:
            return await answer
        finally:
            if answer.cancelled():
                worker.jobs.put(None)  # it hangs, and ends when its reward does
            else:
                self.idle.append(worker)


class _Worker:
    """A thread that computes one reward after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="reward").start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            reward, answer = job
            value, error = None, None
            try:
                value = reward()
            except Exception as raised:
                error = raised
            except BaseException as raised:
                error = RuntimeError(f"the reward tried to end the process: {raised!r}")
            if not self.loop.is_closed():
                self.loop.call_soon_threadsafe(_settle, answer, value, error)


def _settle(answer: "asyncio.Future[Any]", value: Any, error: Exception | None) -> None:
    if not answer.done():
        answer.set_exception(error) if error else answer.set_result(value)
