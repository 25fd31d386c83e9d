"""The rewards of our tasks as verl calls them: any task of a run folder, or math alone."""

import asyncio
import contextlib
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metis.config import task_of
from metis.core import Prompt
from metis.engines.local.rewards import RewardRunner
from metis.engines.verl.heldout import PROMPT, REPORTED
from metis.tasks.base import Task
from metis.tasks.math import reward


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


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any],
    run: str,
    place: str = ".",
    **_: Any,
) -> dict[str, Any]:
    """Play the answer to its end and reward it.

    `run` is the folder that names the task, `place` where its files were named from.
    """
    task, prompts, rewards = _task(run, place)
    episode = task.episode(prompts[extra_info["id"]])
    episode.reply(solution_str)
    found = await asyncio.wrap_future(rewards.submit(episode))
    return _scored(found.score, extra_info, found.report)


def _scored(
    score: float, extra_info: dict[str, Any], report: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A reward as verl reads it; reported names get a prefix, so that none is taken for verl's."""
    more = {f"{REPORTED}{name}": value for name, value in (report or {}).items()}
    return {"score": score, "acc": score, PROMPT: extra_info.get("id"), **more}


@functools.cache
def _task(run: str, place: str) -> tuple[Task, dict[str, Prompt], RewardRunner]:
    settings = json.loads((Path(run) / "config.json").read_text("utf-8"))
    with contextlib.chdir(place):
        task = task_of(settings)
        prompts = {prompt.id: prompt for prompt in (*task.training(), *task.heldout())}
        rewards = RewardRunner(settings["engine"]["reward_timeout"])
        rewards.serve(task)
        return task, prompts, rewards
