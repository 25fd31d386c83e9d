"""The judge by past rewards: a prompt's pass rate is the mean of its own last rewards.

It is the estimate of Knapsack RL (Li et al., arXiv 2509.25849), with the numbers of its released
code. It costs nothing, and has no prediction for a prompt that was not rolled out yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from metis.core import Group, Plan, Progress, Prompt
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges.protocol import SECTION, Judge, Lesson, Prediction, Predictions
from metis.errors import require, require_at_least

KEPT = 16
"""Rewards of a prompt that are kept, the latest; a larger group counts as a whole."""


@dataclass
class History(Stateful, Judge[Predictions]):
    """p (1 - p), where p is the mean of a prompt's own last rewards.

    enough    rewards that a prompt needs for a prediction, at most the 16 that are kept (8)
    """

    enough: int = 8

    rewards: dict[str, list[float]] = field(init=False, default_factory=dict)
    """The last rewards of every prompt rolled out so far."""

    trial: ClassVar[int] = 0
    """No trial: nothing is trained, and a prediction is the prompt's own past."""

    def __post_init__(self) -> None:
        require_at_least(self, {"enough": 1}, SECTION)
        remedy = f"use at most {KEPT}, the rewards that are kept"
        require(self.enough <= KEPT, f"{SECTION}enough", self.enough, remedy)

    def needs(self, batch: int) -> Needs:
        return Needs(data="prompts that come round again")

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[Predictions]:
        yield from ()  # it asks nothing of the engine
        rates = [self.pass_rate(prompt) for prompt in candidates]
        known = [rate * (1 - rate) for rate in rates if rate is not None]
        usual = float(np.mean(known)) if known else None
        return Predictions(
            [
                Prediction(prompt, None, usual)
                if rate is None
                else Prediction(prompt, rate * (1 - rate), rate * (1 - rate), pass_rate=rate)
                for prompt, rate in zip(candidates, rates, strict=True)
            ]
        )

    def pass_rate(self, prompt: Prompt) -> float | None:
        """The mean of a prompt's last rewards; None of too few."""
        rewards = self.rewards.get(prompt.id, [])
        return float(np.mean(rewards)) if len(rewards) >= self.enough else None

    def learn(
        self, predictions: Predictions, groups: Sequence[Group], pool: Pool, progress: Progress
    ) -> Lesson:
        for group in groups:
            if group.rewards:
                rewards = [*self.rewards.get(group.prompt.id, []), *group.rewards]
                kept = max(KEPT, len(group.rewards))
                self.rewards[group.prompt.id] = rewards[-kept:]
        return Lesson()
