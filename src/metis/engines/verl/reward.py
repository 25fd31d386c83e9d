"""The rewards of our tasks as verl calls them."""

import asyncio
import functools
import inspect
import json
from pathlib import Path
from typing import Any

from metis.config import resolve
from metis.core import Prompt
from metis.tasks.base import Task


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any],
    run: str,
    **_: Any,
) -> float:
    """Play the answer to its end and reward it; `run` is the folder that names the task."""
    task, prompts = _task(run)
    episode = task.episode(prompts[extra_info["id"]])
    episode.reply(solution_str)
    value = await asyncio.to_thread(episode.reward)
    return float(await value if inspect.isawaitable(value) else value)


@functools.cache
def _task(run: str) -> tuple[Task, dict[str, Prompt]]:
    raw = json.loads((Path(run) / "config.json").read_text("utf-8"))
    task = resolve({key: value for key, value in raw.items() if key != "schema"}).task
    return task, {prompt.id: prompt for prompt in [*task.training(), *task.heldout()]}
