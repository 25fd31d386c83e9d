"""Turns and rewards beside generation: concurrent, with a time limit, none able to harm the run.

A reward may be a plain function or a coroutine. One that raises, takes too long or is no number
marks its rollout failed, as does an environment's turn that raises or takes too long. One outside
[0, 1] ends the run.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TypeVar

from metis.engines.workers import Workers
from metis.tasks import outcome
from metis.tasks.base import Episode, Reward, Task, scorers
from metis.tasks.outcome import Scoring

T = TypeVar("T")


BACKLOG = 64
"""Rewards for each place that may wait before generation does."""


class RewardRunner:
    """Runs at most `workers` turns and as many rewards at a time in the background.

    Turns have threads of their own, so that the next one to generate never waits for rewards.
    `waited` are the seconds that `turn`, `wait` and `result` took so far. `ended` hears of every
    episode that is over, in the thread of its last turn.
    """

    def __init__(self, timeout: float, workers: int = 64) -> None:
        self.turns, self.rewards = (Workers(timeout, workers) for _ in range(2))
        self.workers = workers
        self.waited = 0.0
        self.ended: Callable[[], object] = lambda: None

    def serve(self, task: Task, share: int = 1) -> None:
        """Make room for as many rewards as a task can score at a time, where it says so.

        Then the time limit of a reward is not spent waiting for its scorer. `share` runners divide
        them. A task that cannot score here refuses.
        """
        most = scorers(task)
        self.rewards.places = min(self.workers, max(1, most // share) if most else self.workers)

    @property
    def backlog(self) -> int:
        """Rewards that may be unfinished before generation has to wait for them."""
        return (1 + BACKLOG) * self.rewards.places

    def turn(self, call: Callable[[], T]) -> "Future[T]":
        """Start an environment's turn; first wait while too many rewards are unfinished."""
        start = time.perf_counter()
        self.rewards.wait_below(self.backlog)
        self.waited += time.perf_counter() - start
        return self.turns.submit(call, "an environment's turn")

    def submit(self, episode: Episode) -> "Future[Scoring]":
        """Start the reward of a finished episode."""
        self.ended()
        return self.rewards.submit(partial(_reward, episode), outcome.scorer(episode))

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
        """The result of a turn or a reward, or its error."""
        start = time.perf_counter()
        error = future.exception()
        self.waited += time.perf_counter() - start
        return error if isinstance(error, Exception) else future.result()

    def result(self, future: "Future[Scoring]") -> Scoring | Exception:
        """The reward, or what went wrong with it."""
        outcome = self.wait(future)
        if isinstance(outcome, Scoring):
            outcome.require_range()
        return outcome

    def close(self) -> None:
        self.turns.close()
        self.rewards.close()


def _reward(episode: Episode) -> Scoring | Awaitable[Scoring]:
    value, scorer = episode.reward(), outcome.scorer(episode)
    return _later(value, scorer) if inspect.isawaitable(value) else outcome.read(value, scorer)


async def _later(value: Awaitable[Reward], scorer: str) -> Scoring:
    return outcome.read(await value, scorer)
