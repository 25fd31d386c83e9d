"""Runs rewards and environment turns concurrently with generation, each with a timeout.

A reward may be a function or a coroutine. If it raises, times out or is not a number, its rollout
counts as failed, as with an environment's turn. A reward outside [0, 1] ends the run.

A user's own reward is tried before a model is loaded (`trial_notices`): for a few prompts two
replies are scored, the boxed reference answer and an empty one. A reward that fails on all of them
is refused; one that fails on some, or times out (it may be loading something), gives a notice.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from typing import Any, TypeVar

from metis.engines.workers import Workers
from metis.errors import MetisError, located
from metis.tasks import outcome
from metis.tasks.base import Episode, Reward, Task, scorers
from metis.tasks.benchmarks.sets import reference, source
from metis.tasks.benchmarks.validation import Validated
from metis.tasks.outcome import Scoring

T = TypeVar("T")


BACKLOG = 64
"""Queued rewards per worker before generation blocks."""


class RewardRunner:
    """Runs up to `workers` turns and `workers` rewards concurrently in threads.

    Turns have their own threads, so that they never queue behind rewards. `waited` are the seconds
    that `turn`, `wait` and `result` blocked. `ended` is called for every finished episode, in the
    thread of its last turn.
    """

    def __init__(self, timeout: float, workers: int = 64) -> None:
        self.turns, self.rewards = (Workers(timeout, workers) for _ in range(2))
        self.workers = workers
        self.waited = 0.0
        self.ended: Callable[[], object] = lambda: None

    def serve(self, task: Task, share: int = 1) -> None:
        """Limit concurrent rewards to what the task can score at a time, if it says so.

        A reward's timeout is then not spent waiting for the scorer. `share` runners divide the
        limit. Raises if the task cannot score here.
        """
        most = scorers(task)
        self.rewards.places = min(self.workers, max(1, most // share) if most else self.workers)

    @property
    def backlog(self) -> int:
        """Unfinished rewards at which generation blocks."""
        return (1 + BACKLOG) * self.rewards.places

    def turn(self, call: Callable[[], T]) -> "Future[T]":
        """Start an environment's turn; blocks while too many rewards are unfinished."""
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
        """Report the number of finished episodes, whenever one finishes."""
        numbers, before = count(1), self.ended
        self.ended = lambda: heard(next(numbers))
        try:
            yield
        finally:
            self.ended = before

    def wait(self, future: "Future[T]") -> T | Exception:
        """Wait for a turn or a reward: its result, or its exception."""
        start = time.perf_counter()
        error = future.exception()
        self.waited += time.perf_counter() - start
        return error if isinstance(error, Exception) else future.result()

    def result(self, future: "Future[Scoring]") -> Scoring | Exception:
        """The reward, or its exception."""
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


TRIED = 4
"""Prompts of a trial."""


def trial_notices(task: Task, timeout: float) -> list[str]:
    """Try a user's own reward; returns a notice if it failed on some replies."""
    own = task.task if isinstance(task, Validated) else task
    if not source(own):
        return []
    tried: list[tuple[Episode, str]] = []
    for prompt in (*own.training()[:TRIED], *own.heldout()[:TRIED])[:TRIED]:
        episode = own.episode(prompt)
        tried += [(episode, f"\\boxed{{{reference(episode)}}}"), (own.episode(prompt), "")]
    errors = _trial_errors(tried, timeout)
    if not errors:
        return []
    (reply, error), name = errors[0], outcome.scorer(tried[0][0])
    said = f"{name} failed on {len(errors)} of {len(tried)} made-up replies, first on {reply!r}"
    late = any(isinstance(error, TimeoutError) for _, error in errors)
    if len(errors) == len(tried) and not late:
        raise MetisError(f"{said}: {located(error)}; fix it first")
    return [f"{said}: {located(error)}; rollouts like it fail and are not trained on"]


def _trial_errors(
    tried: Sequence[tuple[Episode, str]], timeout: float
) -> list[tuple[str, Exception]]:
    """The replies that could not be scored, with their errors; unfinished episodes are skipped."""
    errors = []
    with closing(RewardRunner(timeout)) as rewards:
        turns = [rewards.turn(partial(episode.reply, reply)) for episode, reply in tried]
        said: list[Any] = [rewards.wait(turn) for turn in turns]
        scores = [
            rewards.submit(episode) if answer is None else None
            for (episode, _), answer in zip(tried, said, strict=True)
        ]
        for (_, reply), answer, score in zip(tried, said, scores, strict=True):
            result = rewards.result(score) if score else answer
            if isinstance(result, Exception):
                errors.append((reply, result))
    return errors
