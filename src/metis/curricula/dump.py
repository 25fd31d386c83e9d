"""DUMP: an upper confidence bound over data sources, from the advantages of a sliding window.

Idea       A source is worth what its last rollouts' advantages were, plus a bonus while it is new.
Equation   L(d) = mean of the last W |A|; UCB(d) = L(d) + sqrt(2 ln(sum n + 1) / (n_d + 1)), n_d
           its rollouts so far; P(d) = softmax(UCB(d) / tau).
Acts       before rollouts
Costs      nothing, unless difficulties have to be measured
Continuous unchanged: advantages are all it sees
Reference  Wang et al., DUMP: Automated Distribution-Level Curriculum Learning, arXiv 2504.09710
Deviations
1. No prompt is twice in a batch, and each source has its own epochs: the released code samples with
   replacement, so that a group can count twice in the update.
2. Only training updates the window; the released code also adds the rewards of validation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from metis.core import Batch, Group, Plan, Progress, rollout
from metis.core.pool import Pool
from metis.curricula.arms.armed import Armed
from metis.curricula.arms.partition import Objective, absolute_advantages
from metis.errors import require, require_at_least
from metis.signal import softmax


@dataclass
class Dump(Armed):
    """An upper confidence bound on the advantages of each category.

    window        W: the last rollouts of an arm that count (300)
    tau           temperature of the softmax (0.1)
    objective     the window's values: `normalised` |A| / std of the group · `raw` |A|
    """

    window: int = 300
    tau: float = 0.1
    objective: Objective = "normalised"

    windows: list[list[float]] = field(init=False, default_factory=list)
    counts: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, {"window": 1}, "curriculum.")
        require(self.tau > 0, "curriculum.tau", self.tau, "use a number above 0")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if (unready := (yield from self.prepare(pool, progress))) is not None:
            return unready
        if not self.counts:
            self.windows, self.counts = [[] for _ in self.names], [0 for _ in self.names]
        bounds = self.bounds()
        chances = softmax(np.array(bounds) / self.tau)
        prompts, arms = self.sample(pool, chances, progress)
        groups = yield from rollout(prompts, self.group)
        self._remember(groups, arms)
        return self.report(progress, groups, arms, chances, bounds)

    def bounds(self) -> list[float]:
        """The UCB of each arm; all 0, so uniform sampling, before the first rollout."""
        exploration = 2 * math.log(sum(self.counts) + 1)
        return [
            (float(np.mean(window)) if window else 0.0) + math.sqrt(exploration / (count + 1))
            for window, count in zip(self.windows, self.counts, strict=True)
        ]

    def _remember(self, groups: Sequence[Group], arms: Sequence[int]) -> None:
        for group, arm in zip(groups, arms, strict=True):
            magnitudes = absolute_advantages(group, self.objective)
            self.counts[arm] += len(magnitudes)
            self.windows[arm] = [*self.windows[arm], *magnitudes][-self.window :]
