"""The rewards of our tasks as verl calls them: any task of a run folder, or math or code alone."""

import asyncio
import contextlib
import functools
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from metis.config import task_of
from metis.core import Prompt
from metis.engines.local.rewards import RewardRunner
from metis.engines.verl.heldout import PROMPT, REPORTED
from metis.errors import MetisError
from metis.tasks.base import Episode, Task
from metis.tasks.code import libraries, records
from metis.tasks.code.pool import LIBRARIES
from metis.tasks.code.task import Code, CodeProblems
from metis.tasks.math import reward
from metis.tasks.outcome import Outcome


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
    timeout: float = 600.0,
    **settings: Any,
) -> dict[str, Any]:
    """Programs for problems that `metis prepare code` wrote; `settings` are of task=code.

    `share` are verl's reward workers, which divide the cores among them.
    """
    known = {knob.name for knob in fields(Code)}
    knobs = {key: value for key, value in settings.items() if key in known}
    task, scorer = _code(tuple(sorted(knobs.items())), share, timeout)
    about = extra_info or {}
    problem = records.read(str(about.get("id", "")), "", records.loads(str(ground_truth)))
    if lacking := await asyncio.to_thread(libraries.missing, problem.libraries):
        raise MetisError(
            f"{problem.id}: the sandbox lacks {', '.join(sorted(lacking))}; name folders of "
            f"packages with {LIBRARIES}, or leave out {data_source}"
        )
    episode = task.asked(problem)
    episode.reply(solution_str)
    found = await scorer.outcome(episode)
    return _scored(found.score, about, found.report)


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any],
    run: str,
    place: str = ".",
    share: int = 1,
    **_: Any,
) -> dict[str, Any]:
    """Play the answer to its end and reward it.

    `run` is the folder that names the task, `place` where its files were named from; `share` are
    verl's reward workers, which divide among them what a task can score at a time.
    """
    task, prompts, scorer = _task(run, place, share)
    episode = task.episode(prompts[extra_info["id"]])
    episode.reply(solution_str)
    found = await scorer.outcome(episode)
    return _scored(found.score, extra_info, found.report)


class _Scorer:
    """Rewards in threads beside generation; when too many are unfinished, further ones wait."""

    def __init__(self, task: Task, share: int, timeout: float) -> None:
        self.rewards = RewardRunner(timeout)
        self.rewards.serve(task, share)
        self.room = asyncio.Semaphore(self.rewards.backlog)

    async def outcome(self, episode: Episode) -> Outcome:
        async with self.room:
            return await asyncio.wrap_future(self.rewards.submit(episode))


def _scored(
    score: float, extra_info: dict[str, Any], report: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A reward as verl reads it; reported names get a prefix, so that none is taken for verl's."""
    more = {f"{REPORTED}{name}": value for name, value in (report or {}).items()}
    return {"score": score, "acc": score, PROMPT: extra_info.get("id"), **more}


@functools.cache
def _task(run: str, place: str, share: int) -> tuple[Task, dict[str, Prompt], _Scorer]:
    settings = json.loads((Path(run) / "config.json").read_text("utf-8"))
    with contextlib.chdir(place):
        task = task_of(settings)
        prompts = {prompt.id: prompt for prompt in (*task.training(), *task.heldout())}
        return task, prompts, _Scorer(task, share, settings["engine"]["reward_timeout"])


@functools.cache
def _code(
    knobs: tuple[tuple[str, Any], ...], share: int, timeout: float
) -> tuple[CodeProblems, _Scorer]:
    task = CodeProblems((), (), Code(**dict(knobs)))
    return task, _Scorer(task, share, timeout)
