"""MoPPS: Thompson sampling from a Beta posterior of every prompt's pass rate.

Idea       A prompt's past pass rate predicts its next one. A Beta posterior per prompt keeps the
           counts, and sampling from it explores uncertain prompts.
Equation   gamma ~ Beta(a, b); S_t = the B smallest (gamma - 0.5)^2 among m*B candidates;
           a <- lambda a + (1 - lambda) + k, b <- lambda b + (1 - lambda) + n - k after k of n.
Acts       before rollouts
Costs      nothing
Continuous k = sum of the rewards: fractional counts
Reference  Qu et al., MoPPS (model predictive prompt selection), arXiv 2507.04632; the choice "mapp"
           is the score of `mapp`.
Deviations
1. Every posterior starts at Beta(1, 1): the published code can also start from earlier rollouts,
   which would have to be counted as a cost.
2. A prompt without a single reward keeps its posterior: nothing was observed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from metis.curricula.mapp import mixed_chance, weighted
from metis.curricula.posterior import Posterior
from metis.errors import require
from metis.signal import top_b


@dataclass
class Mopps(Posterior):
    """Samples every candidate's pass rate from its Beta posterior and selects those near 0.5.

    multiplier    m: m*B candidates (16; the authors use 8 outside MATH)
    choice        `topk`: samples nearest to `target`; `threshold`: any in [`low`, `high`], then the
                  nearest; `mapp`: in proportion to the probability of a mixed group
    target        the target pass rate (0.5)
    low, high     the band of `threshold` (0.3, 0.7)
    """

    choice: Literal["topk", "threshold", "mapp"] = "topk"
    target: float = 0.5
    low: float = 0.3
    high: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("target", "low", "high"):
            value = getattr(self, key)
            require(0 <= value <= 1, f"curriculum.{key}", value, "use a number from 0 to 1")
        require(self.low <= self.high, "curriculum.low", self.low, "use at most curriculum.high")

    def _choose(
        self, beliefs: Sequence[Sequence[float]], rng: random.Random
    ) -> tuple[list[float], list[int]]:
        if self.choice == "mapp":
            chances = [mixed_chance(a, b, self.group) for a, b in beliefs]
            return chances, weighted(chances, self.batch, rng)
        draws = [rng.betavariate(a, b) for a, b in beliefs]
        nearness = [-((gamma - self.target) ** 2) for gamma in draws]
        if self.choice == "topk":
            return draws, top_b(nearness, self.batch, rng)
        inside = [i for i, gamma in enumerate(draws) if self.low <= gamma <= self.high]
        if len(inside) >= self.batch:
            return draws, rng.sample(inside, self.batch)
        within = set(inside)
        outside = [None if i in within else near for i, near in enumerate(nearness)]
        missing = min(self.batch, len(draws)) - len(inside)
        return draws, inside + top_b(outside, missing, rng)
