"""Rewards beside generation: concurrent, each with a time limit, none able to harm the run.

A reward may be a plain function or a coroutine. One that raises, takes too long or is no number
marks its rollout failed.
"""

import time
from concurrent.futures import Future
from typing import Any

from metis.engines.local.workers import Workers
from metis.tasks.base import Episode


class RewardRunner:
    """Runs at most `workers` rewards at a time in the background; `result` waits for one.

    `waited` are the seconds that this took so far.
    """

    def __init__(self, timeout: float, workers: int = 64) -> None:
        late = f"the reward took longer than engine.reward_timeout = {timeout} seconds"
        self.workers = Workers(timeout, workers, late)
        self.waited = 0.0

    def submit(self, episode: Episode) -> "Future[float]":
        """Start the reward of a finished episode."""
        return self.workers.submit(episode.reward)

    def result(self, future: "Future[float]") -> float | Exception:
        """The reward, or what went wrong with it."""
        start = time.perf_counter()
        error = future.exception()
        self.waited += time.perf_counter() - start
        return error if isinstance(error, Exception) else _number(future.result())

    def close(self) -> None:
        self.workers.close()


def _number(value: Any) -> float | TypeError:
    try:
        return float(value)
    except (TypeError, ValueError):
        return TypeError(f"the reward is {value!r}, not a number")
