"""E2H: levels of difficulty whose probabilities move from easy to hard on a schedule.

Idea       Start with easy prompts and fade them out over time, but never completely.
Equation   K levels, t from 0 to 1, S = K (K + 1) / 2, f = 1 / S.
           cosine: a = (1 + cos(pi t)) / 2, P_i = a (K - i) / S + (1 - a) (i + 1) / S;
           gaussian: q_i ~ exp(-(i - t^e (K - 1))^2 / (2 sigma^2)), P_i = f + (1 - K f) q_i;
           classic: P = 1 for level floor(K t); balanced: P_i = 1 / K.
Acts       before rollouts
Costs      nothing, unless difficulties have to be measured
Continuous unchanged: it sees no rewards; measured, 1 - mean reward
Reference  Parashar et al., Curriculum RL from Easy to Hard Tasks, arXiv 2506.06632
Deviations
1. t is the share of the budget spent since training started, so that the schedule also follows a
   budget of tokens or seconds.
2. No prompt is twice in a batch: a level that is used up leaves its slots to the others; in
   `classic`, where the others have probability 0, the batch is then short.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Plan, Progress, rollout
from metis.core.pool import Pool
from metis.curricula.arms.armed import Armed
from metis.curricula.arms.partition import Partition, by_label, difficulties
from metis.errors import require
from metis.signal import softmax

Schedule = Literal["cosine", "gaussian", "classic", "balanced"]


@dataclass
class E2H(Armed):
    """Levels of difficulty from easy to hard, on a schedule.

    categories    what a level is: a `label` of the data · a quantile of `difficulty`, from the data
                  or measured with the initial policy · one of `clusters` of the policy's hidden
                  states, if the data has difficulties to sort them by, as with `auto`
    arms          number of levels (4); with `label` there is one per label
    schedule      `cosine` · `gaussian`, a moving bell · `classic`, a hard switch · `balanced`
    order         labels from easy to hard; by default by difficulty, or else by name
    exponent      e of `gaussian`: below 1, the bell moves faster at first (0.5)
    sigma         width of the bell in levels (0.5)
    """

    arms: int = 4
    schedule: Schedule = "cosine"
    order: tuple[str, ...] = ()
    exponent: float = 0.5
    sigma: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.exponent > 0, "curriculum.exponent", self.exponent, "use a number above 0")
        require(self.sigma > 0, "curriculum.sigma", self.sigma, "use a number above 0")
        require(
            not self.order or self.categories == "label",
            "curriculum.order",
            list(self.order),
            "only labels can be ordered: set curriculum.categories=label, or leave it out",
        )

    def check(self, pool: Pool) -> None:
        """Refuse data without labels, or clusters without difficulties to sort them by."""
        super().check(pool)
        require(
            self.categories not in ("clusters", "auto") or difficulties(pool) is not None,
            "curriculum.categories",
            self.categories,
            "clusters have no order without difficulties in the data; use difficulty or label",
        )

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if (unready := (yield from self.prepare(pool, progress))) is not None:
            return unready
        chances = self.probabilities(self._time(progress), len(self.names))
        prompts, arms = self.sample(pool, chances, progress)
        groups = yield from rollout(prompts, self.group)
        return self.report(progress, groups, arms, chances)

    def labelled(self, pool: Pool) -> Partition:
        return by_label(pool, self.order)

    def _time(self, progress: Progress) -> float:
        """t: the share of the budget spent since training started, without measuring."""
        start = progress.fraction if self.start is None else self.start
        return (progress.fraction - start) / (1 - start) if start < 1 else 1.0

    def probabilities(self, time: float, levels: int) -> NDArray[np.float64]:
        """The probability of each level, easiest first."""
        level = np.arange(levels, dtype=np.float64)
        total = levels * (levels + 1) / 2
        if self.schedule == "cosine":
            easy = (1 + math.cos(math.pi * time)) / 2
            chances = (easy * (levels - level) + (1 - easy) * (level + 1)) / total
        elif self.schedule == "gaussian":
            centre = time**self.exponent * (levels - 1)
            bell = softmax(-np.square(level - centre) / (2 * self.sigma**2))
            chances = 1 / total + (1 - levels / total) * bell
        elif self.schedule == "classic":
            chances = np.eye(levels)[min(int(levels * time), levels - 1)]
        else:
            chances = np.full(levels, 1 / levels)
        return np.asarray(chances, dtype=np.float64)

    def introduce(self, sizes: Counter[int]) -> str:
        return f"{super().introduce(sizes)}; in this order, from easy to hard"
