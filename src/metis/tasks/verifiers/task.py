"""Single-turn tasksets of verifiers 0.4 (`verifiers.v1`), by the name of their package.

The model is asked once, as by verifiers' harness `null`. What takes several turns, tool servers or
a container is refused by name, and so is a reward that needs a runtime, unless it may have one.
verifiers is imported by worker processes alone (`worker.py`), which may be of another environment:
its pins exclude those of vLLM.
"""

import math
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple

from metis.core import Chat, Prompt
from metis.core.pool import Rewards
from metis.errors import MetisError, pip_install, require, require_at_least
from metis.tasks.abandonment import this_call
from metis.tasks.base import Reward, SingleTurn, Split
from metis.tasks.division import divided, usual
from metis.tasks.outcome import SCORE
from metis.tasks.processes import ProcessPool
from metis.tasks.verifiers import worker

LONGEST_WAIT = 1e6
"""Seconds that a system call can wait."""
SPARE = 3.0
"""Seconds of a call with a deadline that a late reward has to end in; at most a quarter."""


@dataclass(frozen=True)
class Verifiers:
    """Settings of a verifiers taskset.

    id            the taskset: owner/name as on the Environments Hub, or the name of its package
    config        settings of the taskset
    prompts       number of its tasks to use, from the first; null is all
    heldout       number of held-out tasks, drawn by the seed; null is a fifth of all, at most 200
    reward_range  lowest and highest total reward, rescaled to 0 and 1; null takes them from the
                  weights, with every reward in [0, 1]
    runtime       `subprocess` allows rewards to run programs on this machine, without a sandbox;
                  with `none`, a taskset that needs that is refused
    python        the Python with verifiers and the taskset; by default the one that runs METIS
    workers       worker processes that load and score
    """

    id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    prompts: int | None = None
    heldout: int | None = None
    reward_range: tuple[float, float] | None = None
    runtime: Literal["none", "subprocess"] = "none"
    python: str = ""
    workers: int = 4

    def __post_init__(self) -> None:
        require(bool(self.id), "task.id", self.id, "name a taskset, such as owner/name")
        least = {"prompts": 2, "heldout": 1, "workers": 1}
        given = {name: bound for name, bound in least.items() if getattr(self, name) is not None}
        require_at_least(self, given, "task.")
        low, high = self.reward_range or (0.0, 1.0)
        require(
            -math.inf < low < high < math.inf,
            "task.reward_range",
            self.reward_range,
            "write the lowest reward, then the highest",
        )


class TasksetRow(NamedTuple):
    """A task of a taskset: its chat and the weights of its rewards; `task` scores it."""

    prompt: Prompt
    chat: Chat
    reference: str
    weights: dict[str, float]
    task: bytes


class RewardFailed(Exception):
    """A reward of a taskset raised, or returned no number."""


class VerifiersTask(Split):
    """The tasks of a taskset, split into training and held-out ones.

    `digest` is of the taskset's code.
    """

    rewards: Rewards = "continuous"

    def __init__(self, settings: Verifiers, seed: int) -> None:
        self.settings = settings
        self.pool = _pool(settings.python or sys.executable, settings.workers)
        loaded = self._ask(
            worker.LOAD, settings.id, settings.config, settings.prompts, settings.runtime
        )
        self.digest: str = loaded["digest"]
        name = settings.id.rpartition("/")[2]
        rows = [
            TasksetRow(Prompt(f"{name}:{place}", text), chat, reference, weights, task)
            for place, chat, text, reference, weights, task in loaded["rows"]
        ]
        count = usual(len(rows)) if settings.heldout is None else settings.heldout
        self.settings = replace(settings, heldout=count)
        training, heldout = divided(rows, None, count, seed, _question, "tasks")
        self.rows = {row.prompt.id: row for row in (*training, *heldout)}
        self._training = [row.prompt for row in training]
        self._heldout = [row.prompt for row in heldout]

    @property
    def scorer(self) -> str:
        span = self.settings.reward_range
        told = "by their weights" if span is None else f"from {span[0]:g} to {span[1]:g}"
        return f"{self.settings.id} of verifiers (rewards {told}, task.reward_range)"

    def scorers(self) -> int:
        """Number of answers scored at the same time."""
        return self.pool.workers

    def episode(self, prompt: Prompt) -> SingleTurn:
        row = self.rows[prompt.id]
        return SingleTurn(
            row.chat, lambda reply: self._score(row, reply), row.reference, self.scorer
        )

    def _score(self, row: TasksetRow, reply: str) -> Reward:
        left = this_call().deadline - time.monotonic()
        seconds = min(left - min(SPARE, left / 4), LONGEST_WAIT)
        rewards, metrics = self._ask(worker.SCORE, row.task, reply, self.settings.runtime, seconds)
        unscored = [name for name, reward in rewards.items() if reward is None]
        if unscored:
            raise RewardFailed(f"{', '.join(unscored)} gave no reward")
        scores = {name: value for name, (value, _) in rewards.items()} if len(rewards) > 1 else {}
        return {**metrics, **scores, SCORE: self._rescaled(row, rewards)}

    def _rescaled(self, row: TasksetRow, rewards: dict[str, tuple[float, float]]) -> float:
        """The total reward in [0, 1]."""
        span = self.settings.reward_range
        if span is None:
            if rewards.keys() != row.weights.keys():
                raise RewardFailed(
                    f"the rewards are {', '.join(rewards)}, not {', '.join(row.weights)}: where "
                    "one returns several, set task.reward_range to the lowest and highest total"
                )
            span = _span(row.weights)
        total = sum(value * weight for value, weight in rewards.values())
        return (total - span[0]) / (span[1] - span[0])

    def _ask(self, what: str, *arguments: Any) -> Any:
        call = this_call()
        process = self.pool.take(call=call)
        try:
            with call.ended_by(process.kill):
                how, value = process.ask((what, arguments), LONGEST_WAIT)
        except BaseException:
            self.pool.drop(process)
            raise
        self.pool.give(process)
        if how == worker.REFUSED:
            raise MetisError(f"task.id = {self.settings.id!r}: {value}")
        if how == worker.LATE:
            raise TimeoutError(f"the rewards of {self.settings.id} took too long")
        if how == worker.FAILED:
            raise RewardFailed(value)
        return value


def _question(row: TasksetRow) -> tuple[tuple[str, str], ...]:
    return tuple((message["role"], message["content"]) for message in row.chat)


def _span(weights: dict[str, float]) -> tuple[float, float]:
    """The lowest and the highest total of rewards in [0, 1]."""
    values = weights.values()
    return sum(min(0.0, weight) for weight in values), sum(max(0.0, weight) for weight in values)


@cache
def _pool(python: str, workers: int) -> ProcessPool:
    """One pool for all tasks of this process: verifiers takes seconds to import."""
    if shutil.which(python) is None:
        raise MetisError(f"task.python = {python!r}: there is no such program")
    remedy = f"{pip_install('verifiers')}, or name the Python of another environment: task.python"
    if python != sys.executable:
        remedy = f"{python} -m pip install 'verifiers>=0.4,<0.5'"
    return ProcessPool((worker.__file__, remedy), workers, python)


def build(settings: Verifiers, seed: int) -> VerifiersTask:
    """The task for a run's seed."""
    return VerifiersTask(settings, seed)
