"""Rewards beside generation: each in its own thread or task, with a time limit, none able to harm.

A reward may be a plain function or a coroutine. One that raises or takes too long marks its rollout
failed; generation goes on meanwhile.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from metis.tasks.base import Episode


class RewardRunner:
    """Runs rewards in the background; `result` waits for one."""

    def __init__(self, timeout: float, workers: int = 16) -> None:
        self.timeout = timeout
        self.loop = asyncio.new_event_loop()
        self.threads = ThreadPoolExecutor(workers, thread_name_prefix="reward")
        self.loop.set_default_executor(self.threads)
        threading.Thread(target=self.loop.run_forever, daemon=True, name="rewards").start()

    def submit(self, episode: Episode) -> "Future[float]":
        """Start the reward of a finished episode."""
        return asyncio.run_coroutine_threadsafe(self._run(episode.reward), self.loop)

    async def _run(self, reward: Callable[[], Any]) -> float:
        async with asyncio.timeout(self.timeout):
            value = await asyncio.to_thread(reward)
            return float(await value if inspect.isawaitable(value) else value)

    def result(self, future: "Future[float]") -> float | Exception:
        """The reward, or what went wrong with it."""
        try:
            return future.result()
        except Exception as error:
            return error

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.threads.shutdown(wait=False, cancel_futures=True)
