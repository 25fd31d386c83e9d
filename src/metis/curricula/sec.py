"""SEC, the self-evolving curriculum: a bandit over categories, with absolute advantage as reward.

Idea       The policy learns most from the categories with the largest advantages now.
Equation   P(c) = softmax(Q_c / tau); r_c = mean |A| over the rollouts of c in the batch;
           Q_c <- (1 - alpha) Q_c + alpha r_c, from Q_c = 0.
Acts       before rollouts
Costs      nothing, unless difficulties have to be measured
Continuous unchanged: advantages are all it sees
Reference  Chen et al., Self-Evolving Curriculum for LLM Reasoning, arXiv 2505.14970
Deviations
1. decay_unseen is off: only categories in the batch are updated, as in the paper. The released code
   updates all others with a reward of 0; turn it on to reproduce that.
2. No prompt is twice in a batch: a category that is used up is not sampled again in that step, and
   each category has its own epochs. The released code reshuffles all when one runs out.
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
    """A bandit over categories with absolute advantages as rewards.

    alpha         step size of Q (0.5)
    tau           temperature of the softmax (0.4)
    draw          sample an arm for each `slot` of the batch (released code) · for the whole `step`
    objective     the reward: `normalised` |A| / std of the group · `raw` |A|
    decay_unseen  update arms absent from the batch towards 0 (released code)
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
    """`paper` is SEC as METIS runs it as a baseline. The paper does not define its ten categories:
    quantiles of difficulty are a guess, or clusters of hidden states if the data has no
    difficulties: measuring them would take four rollouts of every prompt before the first update,
    and distinguish only five pass rates for ten arms. Its advantages are not divided by the
    standard deviation; SEC does not use the candidate multiplier. The text can also be read as one
    category for a whole step (`draw=step`); the released code, which it says it follows, samples
    one for each slot."""

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
        self.q = self._learn(self.q or believed, groups, arms)
        return self.report(progress, groups, arms, chances, believed)

    def _learn(
        self, believed: Sequence[float], groups: Sequence[Group], arms: Sequence[int]
    ) -> list[float]:
        """Exponential moving average of rewards, for arms with an advantage in the batch."""
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
