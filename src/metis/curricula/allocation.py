"""The base class of curricula that allocate rollouts: the batch is uniform, its groups are not."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Decision, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges import Judge, Prediction
from metis.curricula.judges.protocol import require_usable
from metis.curricula.judges.skill import Skill
from metis.errors import require, require_at_least
from metis.signal import VARIANCE_MAX

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

HALF = 0.5
"""The judge's lift is that of the half of a batch predicted highest: nothing is selected."""


@dataclass
class Allocation(Stateful):
    """Draws B prompts uniformly and divides B*n rollouts among them, by a judge's predictions.

    batch, group  B prompts a step, n rollouts each on average
    least, most   rollouts of a prompt
    judge         predicts before the rollouts: any of METIS's judges, or your own
    """

    batch: int
    group: int
    least: int
    most: int
    judge: Judge[Any]

    skill: Skill = field(init=False, default_factory=Skill)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"least": 2}, "curriculum.")
        least, most = f"at most group ({self.group})", f"at least group ({self.group})"
        require(self.least <= self.group, "curriculum.least", self.least, f"use {least}")
        require(self.most >= self.group, "curriculum.most", self.most, f"use {most}")

    @property
    def needs(self) -> Needs:
        return replace(self.judge.needs(self.batch), ragged=True)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.batch)
        size = len(candidates)
        predictions = yield from self.judge.predict(candidates, size, pool, progress)
        require_usable(self.judge, predictions, candidates, size)
        judged = predictions.candidates
        counts = self.allocate(judged).tolist() if size else []
        groups = yield from rollout([each.prompt for each in judged], counts)
        lesson = self.judge.learn(predictions, groups, pool, progress)
        drawn = {prompt.id for prompt in candidates}
        metrics = self.skill.add(predictions, drawn, groups, lesson, progress.step, HALF)
        return Batch(
            groups,
            lesson.judgments,
            {**metrics, **predictions.metrics, **lesson.metrics, **_measured(judged, counts)},
            decisions=[
                Decision(
                    each.prompt,
                    chosen=True,
                    reason="allocated",
                    score=float(n),
                    failure=each.failure,
                    reply=each.reply,
                    distribution=each.distribution,
                    v_hat=each.v_hat,
                )
                for each, n in zip(judged, counts, strict=True)
            ],
            notices=self.skill.notices(judged),
            gradient_share=lesson.gradient_share,
            exemplars=predictions.shown,
        )

    @abstractmethod
    def allocate(self, predictions: Sequence[Prediction]) -> Counts:
        """The rollouts of each prompt, n on average."""


def _measured(judged: Sequence[Prediction], counts: Sequence[int]) -> dict[str, float]:
    metrics = {
        "select/candidates": float(len(judged)),
        "select/known": float(sum(each.v_hat is not None for each in judged)),
    }
    if counts:
        metrics |= {"select/fewest": float(min(counts)), "select/largest": float(max(counts))}
    return metrics


def pass_rate(prediction: Prediction) -> float | None:
    """The predicted pass rate; of a judge that predicts v alone the lower p of p (1 - p) = v."""
    if prediction.pass_rate is not None:
        return prediction.pass_rate
    if prediction.v_hat is None:
        return None
    return 0.5 - math.sqrt(VARIANCE_MAX - min(max(prediction.v_hat, 0.0), VARIANCE_MAX))


def divide(gains: Floats, room: Counts, budget: int) -> Counts:
    """Further rollouts of each prompt, `budget` in all, so that the sum of the gains is highest.

    `gains[i, k]` is that of the (k + 1)-th further rollout of prompt i, which must not rise in k:
    then the highest gains are the optimum, as of dynamic programming. At most `room[i]` are given.
    """
    allowed = np.arange(gains.shape[1]) < room[:, None]
    order = np.argsort(-np.where(allowed, gains, -np.inf).T.ravel(), kind="stable")
    taken = order[: min(budget, int(allowed.sum()))] % len(gains)
    return np.bincount(taken, minlength=len(gains))


def evenly(room: Counts, budget: int) -> Counts:
    """Further rollouts of each prompt, the same for all that have room."""
    return divide(np.zeros((len(room), max(1, int(room.max())))), room, budget)
