"""AdaRFT: a target difficulty that rises while rewards are high, and falls while they are low.

Idea       Train on problems that the policy can just about solve: keep a target difficulty, move it
           by the mean reward of each batch, and train on the prompts nearest to it.
Equation   S_t = the B smallest |d(x) - T|; T <- clip(T + eta tanh(alpha (R - beta)), d_min, d_max),
           R the mean reward of the batch, from T = d_min.
Acts       before rollouts
Costs      nothing, unless difficulties have to be measured
Continuous unchanged: R is the mean reward
Reference  Shi et al., AdaRFT (adaptive curriculum reinforcement finetuning), arXiv 2504.05520;
           defaults of its released code.
Deviations
1. eta is a share of the range of difficulties, which the paper scales to 0 .. 100: 0.5 is its 50.
   d_min and d_max are the lowest and the highest difficulty of the training set. T settles where
   R falls from 1 to 0 over more than alpha * eta / 2 of the range, as it does if d is 1 - the pass
   rate of a similar model; on a wider range it swings between too easy and too hard: lower eta.
2. d is the difficulty in the data, or 1 - the pass rate where the data has none or `rates` is set.
   The paper's is 100 (1 - the pass rate) of a model of its choice, from 128 rollouts.
3. Ties are broken at random: the released code takes them in the order of the data, so that the
   same prompts return as long as T stands still.
4. multiplier, off by default, draws the batch from the m*B nearest prompts: with difficulties that
   are all different, there are no ties, and a target that stands still repeats its batch.
5. A batch without any reward leaves T where it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Decision, Group, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.curricula.arms.partition import difficulties
from metis.curricula.profiled import Profiled
from metis.errors import require, require_at_least

DATA = "difficulties: in the data, from a file, or measured"


@dataclass
class Adarft(Profiled):
    """The prompts nearest to a target difficulty, which follows the mean reward.

    eta         step size of the target, as a share of the range of difficulties (0.5); less where
                `select/target` swings
    alpha       how sharply the target answers to rewards (2)
    beta        the mean reward at which the target stands still (0.5)
    multiplier  m: B prompts are drawn from the m*B nearest (1)
    """

    eta: float = 0.5
    alpha: float = 2.0
    beta: float = 0.5
    multiplier: int = 1

    difficulty: NDArray[np.float64] = field(init=False, default_factory=lambda: np.zeros(0))
    """d of each prompt, by position."""
    target: float | None = field(init=False, default=None)
    """T; none before training starts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, {"multiplier": 1}, "curriculum.")
        require(self.eta > 0, "curriculum.eta", self.eta, "use a number above 0")
        require(self.alpha > 0, "curriculum.alpha", self.alpha, "use a number above 0")
        require(0 <= self.beta <= 1, "curriculum.beta", self.beta, "use a number from 0 to 1")

    @property
    def needs(self) -> Needs:
        return replace(super().needs, data=DATA)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if not self.complete and not self.rates and (given := difficulties(pool)) is not None:
            self.difficulty, self.complete = given, True
        if (unready := (yield from self.prepare(pool, progress))) is not None:
            return unready
        if self.target is None:
            if not len(self.difficulty):
                self.difficulty = 1.0 - self.filled()
            self.target = float(self.difficulty.min())
        aimed = self.target
        positions = self.nearest(aimed, progress)
        prompts = [pool.prompts[i] for i in positions]
        groups = yield from rollout(prompts, self.group)
        self.target = self.moved(self.target, groups)
        drawn = self.difficulty[positions]
        return Batch(
            groups,
            metrics={
                "select/target": aimed,
                "select/difficulty": float(drawn.mean()),
                "select/discarded": 0.0,
            },
            decisions=[
                Decision(prompt, True, "nearest", float(d))
                for prompt, d in zip(prompts, drawn, strict=True)
            ],
        )

    def nearest(self, target: float, progress: Progress) -> list[int]:
        """Positions of the prompts nearest to the target, in random order."""
        rng = progress.rng("nearest")
        distance = np.abs(self.difficulty - target)
        count = min(self.multiplier * self.batch, len(distance))
        cut = np.partition(distance, count - 1)[count - 1]
        inside, tied = np.flatnonzero(distance < cut), np.flatnonzero(distance == cut)
        around = [*inside.tolist(), *rng.sample(tied.tolist(), count - len(inside))]
        return rng.sample(around, min(self.batch, count))

    def moved(self, target: float, groups: Sequence[Group]) -> float:
        """T after a batch."""
        rewards = [reward for group in groups for reward in group.rewards]
        if not rewards:
            return target
        low, high = float(self.difficulty.min()), float(self.difficulty.max())
        signal = math.tanh(self.alpha * (math.fsum(rewards) / len(rewards) - self.beta))
        return min(max(target + self.eta * (high - low) * signal, low), high)
