"""Tries a user's own reward on made-up replies before a model is loaded.

For a few prompts two replies are scored: the boxed reference answer and an empty one. A reward that
fails on all of them is refused; one that fails on some, or times out (it may be loading something),
gives a notice.
"""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from metis.engines.rewards import RewardRunner
from metis.errors import MetisError, located
from metis.tasks.base import Episode, Task
from metis.tasks.benchmarks.sets import reference, source
from metis.tasks.benchmarks.validation import Validated
from metis.tasks.outcome import scorer

PROMPTS = 4
"""Number of prompts to try."""


def trial_notices(task: Task, timeout: float) -> list[str]:
    """Try a user's own reward; returns a notice if it failed on some replies."""
    own = task.task if isinstance(task, Validated) else task
    if not source(own):
        return []
    tried: list[tuple[Episode, str]] = []
    for prompt in (*own.training()[:PROMPTS], *own.heldout()[:PROMPTS])[:PROMPTS]:
        episode = own.episode(prompt)
        tried += [(episode, f"\\boxed{{{reference(episode)}}}"), (own.episode(prompt), "")]
    errors = _errors(tried, timeout)
    if not errors:
        return []
    (reply, error), name = errors[0], scorer(tried[0][0])
    said = f"{name} failed on {len(errors)} of {len(tried)} made-up replies, first on {reply!r}"
    late = any(isinstance(error, TimeoutError) for _, error in errors)
    if len(errors) == len(tried) and not late:
        raise MetisError(f"{said}: {located(error)}; fix it first")
    return [f"{said}: {located(error)}; rollouts like it fail and are not trained on"]


def _errors(tried: Sequence[tuple[Episode, str]], timeout: float) -> list[tuple[str, Exception]]:
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
