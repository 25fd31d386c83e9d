"""Reward functions for verl: any task of a run folder, or math or code by itself."""

import asyncio
import contextlib
import functools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from metis.core import Message, Prompt
from metis.engines.rewards import RewardRunner
from metis.engines.training_settings import TrainingSettings
from metis.engines.verl.servers.said import REPORTED
from metis.errors import MetisError
from metis.settings.sections import task_of
from metis.tasks.base import Episode, Task
from metis.tasks.code import libraries, records
from metis.tasks.code.pool import LIBRARIES
from metis.tasks.code.task import Code, CodeProblems
from metis.tasks.math import reward
from metis.tasks.outcome import Scoring


def score_math(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    verify: bool = True,
    **_: Any,
) -> dict[str, Any]:
    """Score a response to a math problem by its `ground_truth` (`metis prepare math`)."""
    return _scored(reward(solution_str, str(ground_truth), verify))


async def score_code(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    share: int = 1,
    nodes: int = 1,
    timeout: float = 600.0,
    **settings: Any,
) -> dict[str, Any]:
    """Score a program for a problem of `metis prepare code`; `settings` are those of task=code.

    `share` is the number of verl's reward workers; those on one of the `nodes` share its cores.
    """
    names = {each.name for each in fields(Code)}
    given = {key: value for key, value in settings.items() if key in names}
    task, scorer = _code(tuple(sorted(given.items())), _of_a_node(share, nodes), timeout)
    about = extra_info or {}
    problem = records.read(str(about.get("id", "")), "", records.loads(str(ground_truth)))
    if lacking := await asyncio.to_thread(libraries.missing, problem.libraries):
        raise MetisError(
            f"{problem.id}: the sandbox lacks {', '.join(sorted(lacking))}; name folders of "
            f"packages with {LIBRARIES}, or leave out {data_source}"
        )
    episode = task.asked(problem)
    episode.reply(solution_str)
    outcome = await scorer.outcome(episode)
    return _scored(outcome.score, outcome.report)


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any],
    **named: Any,
) -> dict[str, Any]:
    """Score a response with the task of a run; `named` are the arguments of `loaded_task`."""
    task = loaded_task(**named)
    episode = task.episode(extra_info)
    episode.reply(solution_str)
    return await task.reward(episode)


class Scorer:
    """Computes rewards in threads; calls wait while too many are unfinished."""

    def __init__(self, task: Task, share: int, timeout: float) -> None:
        self.rewards = RewardRunner(timeout)
        self.rewards.serve(task, share)
        self.room = asyncio.Semaphore(self.rewards.backlog)

    async def outcome(self, episode: Episode) -> Scoring:
        async with self.room:
            return await asyncio.wrap_future(self.rewards.submit(episode))


@dataclass(frozen=True)
class LoadedTask:
    """A task in a process of verl; `longest` is the maximum number of tokens of a turn."""

    task: Task
    prompts: Mapping[str, Prompt]
    scorer: Scorer
    longest: int

    def episode(self, extra_info: Mapping[str, Any]) -> Episode:
        return self.task.episode(self.prompts[extra_info["id"]])

    async def turn(self, episode: Episode, said: str) -> Sequence[Message] | None:
        """The environment's answer to the policy's turn; None at the end of the episode."""
        return await asyncio.wrap_future(self.scorer.rewards.turn(partial(episode.reply, said)))

    async def reward(self, episode: Episode) -> dict[str, Any]:
        """The reward in verl's format."""
        outcome = await self.scorer.outcome(episode)
        return _scored(outcome.score, outcome.report)


def loaded_task(
    run: str = "",
    place: str = ".",
    task: Mapping[str, Any] | None = None,
    share: int = 1,
    nodes: int = 1,
    **_: Any,
) -> LoadedTask:
    """The task of a run folder, or of its own settings.

    `place` is the folder of its relative paths. `share` is the number of verl's reward workers;
    those on one of the `nodes` share the number of responses that the task can score at a time.
    """
    if not run and task is None:
        raise MetisError(
            "reward.custom_reward_function.reward_kwargs has neither run nor task: name a run "
            "folder, or the settings of a task, such as task={name:bfcl}"
        )
    return _played(run, place, json.dumps(task), _of_a_node(share, nodes))


def _of_a_node(workers: int, nodes: int) -> int:
    """The maximum number of workers per node; verl assigns them round-robin."""
    return math.ceil(workers / nodes)


def _scored(score: float, report: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A reward in verl's format; reported values get a prefix, to not clash with verl's names."""
    more = {f"{REPORTED}{name}": value for name, value in (report or {}).items()}
    return {"score": score, "acc": score, **more}


@functools.cache
def _played(run: str, place: str, described: str, share: int) -> LoadedTask:
    settings = {"task": json.loads(described)}
    if run:
        settings = json.loads((Path(run) / "config.json").read_text("utf-8"))
    engine = {"reward_timeout": TrainingSettings.reward_timeout, **settings.get("engine", {})}
    with contextlib.chdir(place):
        task = task_of(settings)
        prompts = {prompt.id: prompt for prompt in (*task.training(), *task.heldout())}
        scorer = Scorer(task, share, engine["reward_timeout"])
    return LoadedTask(task, prompts, scorer, engine.get("max_tokens", sys.maxsize))


@functools.cache
def _code(
    given: tuple[tuple[str, Any], ...], share: int, timeout: float
) -> tuple[CodeProblems, Scorer]:
    task = CodeProblems((), (), Code(**dict(given)))
    return task, Scorer(task, share, timeout)
