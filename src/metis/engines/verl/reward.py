"""The rewards of our tasks as verl calls them: any task of a run folder, or math or code alone."""

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

from metis.config import task_of
from metis.core import Message, Prompt
from metis.engines.learning import Learning
from metis.engines.rewards import RewardRunner
from metis.engines.verl.heldout import PROMPT, REPORTED
from metis.errors import MetisError
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
    """Answers to problems that `metis prepare math` wrote, or others with a `ground_truth`."""
    return _scored(reward(solution_str, str(ground_truth), verify), extra_info or {})


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
    """Programs for problems that `metis prepare code` wrote; `settings` are of task=code.

    `share` are verl's reward workers: those of one of the `nodes` divide its cores among them.
    """
    names = {knob.name for knob in fields(Code)}
    knobs = {key: value for key, value in settings.items() if key in names}
    task, scorer = _code(tuple(sorted(knobs.items())), _of_a_node(share, nodes), timeout)
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
    return _scored(outcome.score, about, outcome.report)


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any],
    **named: Any,
) -> dict[str, Any]:
    """Play the answer to its end and reward it; `played` explains what is named."""
    task = played(**named)
    episode = task.episode(extra_info)
    episode.reply(solution_str)
    return await task.reward(episode, extra_info)


class Scorer:
    """Rewards in threads beside generation; when too many are unfinished, further ones wait."""

    def __init__(self, task: Task, share: int, timeout: float) -> None:
        self.rewards = RewardRunner(timeout)
        self.rewards.serve(task, share)
        self.room = asyncio.Semaphore(self.rewards.backlog)

    async def outcome(self, episode: Episode) -> Scoring:
        async with self.room:
            return await asyncio.wrap_future(self.rewards.submit(episode))


@dataclass(frozen=True)
class Played:
    """A task in a process of verl's; `longest` are the tokens of one answer."""

    task: Task
    prompts: Mapping[str, Prompt]
    scorer: Scorer
    longest: int

    def episode(self, extra_info: Mapping[str, Any]) -> Episode:
        return self.task.episode(self.prompts[extra_info["id"]])

    async def turn(self, episode: Episode, said: str) -> Sequence[Message] | None:
        """The environment's turn."""
        return await asyncio.wrap_future(self.scorer.rewards.turn(partial(episode.reply, said)))

    async def reward(self, episode: Episode, extra_info: Mapping[str, Any]) -> dict[str, Any]:
        """The reward as verl reads it."""
        outcome = await self.scorer.outcome(episode)
        return _scored(outcome.score, extra_info, outcome.report)


def played(
    run: str = "",
    place: str = ".",
    task: Mapping[str, Any] | None = None,
    share: int = 1,
    nodes: int = 1,
    **_: Any,
) -> Played:
    """The task that a run folder names, or that is described by itself.

    `place` is where its files were named from; `share` are verl's reward workers: those of one of
    the `nodes` divide among them what a task can score at a time there.
    """
    if not run and task is None:
        raise MetisError(
            "reward.custom_reward_function.reward_kwargs has neither run nor task: name a run "
            "folder, or the settings of a task, such as task={name:bfcl}"
        )
    return _played(run, place, json.dumps(task), _of_a_node(share, nodes))


def _of_a_node(workers: int, nodes: int) -> int:
    """The most workers that a node has, dealt as verl deals them: one to each node in turn."""
    return math.ceil(workers / nodes)


def _scored(
    score: float, extra_info: Mapping[str, Any], report: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A reward as verl reads it; reported names get a prefix, so that none is taken for verl's."""
    more = {f"{REPORTED}{name}": value for name, value in (report or {}).items()}
    return {"score": score, "acc": score, PROMPT: extra_info.get("id"), **more}


@functools.cache
def _played(run: str, place: str, described: str, share: int) -> Played:
    settings = {"task": json.loads(described)}
    if run:
        settings = json.loads((Path(run) / "config.json").read_text("utf-8"))
    engine = {"reward_timeout": Learning.reward_timeout, **settings.get("engine", {})}
    with contextlib.chdir(place):
        task = task_of(settings)
        prompts = {prompt.id: prompt for prompt in (*task.training(), *task.heldout())}
        scorer = Scorer(task, share, engine["reward_timeout"])
    return Played(task, prompts, scorer, engine.get("max_tokens", sys.maxsize))


@functools.cache
def _code(
    knobs: tuple[tuple[str, Any], ...], share: int, timeout: float
) -> tuple[CodeProblems, Scorer]:
    task = CodeProblems((), (), Code(**dict(knobs)))
    return task, Scorer(task, share, timeout)
