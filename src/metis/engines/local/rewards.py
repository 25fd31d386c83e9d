"""Turns and rewards beside generation: concurrent, with a time limit, none able to harm the run.

A reward may be a plain function or a coroutine. One that raises, takes too long or is no number
marks its rollout failed, as does an environment's turn that raises or takes too long.
"""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from metis.engines.local.workers import Workers
from metis.tasks.base import Episode

T = TypeVar("T")


class RewardRunner:
    """Runs at most `workers` turns and as many rewards at a time in the background.

    Turns have threads of their own, so that the next one to generate never waits for rewards.
    `waited` are the seconds that `wait` and `result` took so far. `ended` hears of every episode
    that is over, in the thread of its last turn.
    """

    def __init__(self, timeout: float, workers: int = 64) -> None:
        late = f"took longer than engine.reward_timeout = {timeout} seconds"
        self.turns = Workers(timeout, workers, f"an environment's turn {late}")
        self.rewards = Workers(timeout, workers, f"the reward {late}")
        self.waited = 0.0
        self.ended: Callable[[], object] = lambda: None

    def turn(self, call: Callable[[], T]) -> "Future[T]":
        """Start an environment's turn."""
        return self.turns.submit(call)

    def submit(self, episode: Episode) -> "Future[float]":
        """Start the reward of a finished episode."""
        self.ended()
        return self.rewards.submit(episode.reward)

    @contextmanager
    def counting(self, heard: Callable[[int], object]) -> Iterator[None]:
        """Tell how many episodes are over, with every one that ends."""
        numbers, before = count(1), self.ended
        self.ended = lambda: heard(next(numbers))
        try:
            yield
        finally:
            self.ended = before

    def wait(self, future: "Future[T]") -> T | Exception:
        """What came of a turn or a reward, or what went wrong with it."""
        start = time.perf_counter()
        error = future.exception()
        self.waited += time.perf_counter() - start
        return error if isinstance(error, Exception) else future.result()

    def result(self, future: "Future[float]") -> float | Exception:
        """The reward, or what went wrong with it."""
        value = self.wait(future)
        return value if isinstance(value, Exception) else _number(value)

    def close(self) -> None:
        self.turns.close()
        self.rewards.close()


def _number(value: Any) -> float | TypeError:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    return number if math.isfinite(number) else TypeError(f"the reward is {value!r}, not a number")
