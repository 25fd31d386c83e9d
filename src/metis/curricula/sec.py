"""SEC, the self-evolving curriculum: a bandit over categories, paid in absolute advantage.

Idea       Categories whose rollouts have large advantages now are where the policy learns now.
Equation   P(c) = softmax(Q_c / tau); r_c = mean |A| over the rollouts of c in the batch;
           Q_c <- (1 - alpha) Q_c + alpha r_c, from Q_c = 0.
Acts       before rollouts
Costs      nothing, unless difficulties have to be measured
Continuous unchanged: advantages are all it sees
Reference  Chen et al., Self-Evolving Curriculum for LLM Reasoning, arXiv 2505.14970
Deviations
1. decay_unseen is off: only categories in the batch are updated, as the paper says. The released
   code mixes a reward of 0 into all others; turn it on to reproduce that.
2. No prompt is twice in a batch: a category that is used up leaves the draw of that step, and each
   category is walked in epochs of its own. The released code reshuffles all when one runs short.
3. objective: |A| is divided by the standard deviation whether or not the trainer does so, because
   tau is set for that scale; `raw` takes METIS's undivided advantages, for which tau = 0.2 fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from metis.core import Batch, Group, Plan, Progress, rollout
from metis.core.pool import Pool
from metis.curricula.arms.armed import Armed
from metis.curricula.arms.partition import Objective, absolute_advantages
from metis.errors import require
from metis.signal import softmax


@dataclass
class Sec(Armed):
    """A bandit over categories that goes where advantages are large.

    alpha         how fast Q follows the last reward (0.5)
    tau           temperature of the draw (0.4)
    draw          an arm for each `slot` of the batch (released code) · one for the whole `step`
    objective     the reward: `normalised` |A|, divided by the group's deviation · `raw` |A|
    decay_unseen  whether an arm absent from the batch is updated towards 0 (released code)
    """

    presets: ClassVar = {
        "published": {},
        "paper": {
            "categories": "auto",
            "arms": 10,
            "alpha": 0.5,
            "tau": 0.4,
            "draw": "slot",
            "objective": "raw",
            "decay_unseen": False,
        },
    }
    """`paper` is SEC as METIS runs it as a baseline. The paper does not say what its ten categories
    are, quantiles of difficulty are a guess, and clusters of hidden states where the data has none:
    to measure them would take four rollouts of every prompt before the first update, and tell five
    pass rates apart for ten arms. Its advantages are undivided; SEC has no use for its pool
    multiplier. The text can also be read as one category for a whole step (`draw=step`); the
    released code, which it says it follows, draws one for each slot."""

    alpha: float = 0.5
    tau: float = 0.4
    draw: Literal["slot", "step"] = "slot"
    objective: Objective = "normalised"
    decay_unseen: bool = False

    q: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.alpha <= 1, "curriculum.alpha", self.alpha, "use a share above 0, up to 1")
        require(self.tau > 0, "curriculum.tau", self.tau, "use a number above 0")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if (unready := (yield from self.prepare(pool, progress))) is not None:
            return unready
        believed = self.q or [0.0] * len(self.names)
        chances = softmax(np.array(believed) / self.tau)
        prompts, arms = self.sample(pool, chances, progress, whole=self.draw == "step")
        groups = yield from rollout(prompts, self.group)
        self.q = self._learn(believed, groups, arms)
        return self.report(progress, groups, arms, chances, believed)

    def _learn(
        self, believed: Sequence[float], groups: Sequence[Group], arms: Sequence[int]
    ) -> list[float]:
        """TD(0) without discount; an arm is seen when it has a rollout with an advantage."""
        seen: dict[int, list[float]] = {}
        for group, arm in zip(groups, arms, strict=True):
            if magnitudes := absolute_advantages(group, self.objective):
                seen.setdefault(arm, []).extend(magnitudes)
        rewards = {arm: float(np.mean(magnitudes)) for arm, magnitudes in seen.items()}
        return [
            (1 - self.alpha) * value + self.alpha * rewards.get(arm, 0.0)
            if arm in rewards or self.decay_unseen
            else value
            for arm, value in enumerate(believed)
        ]
