"""MoPPS: Thompson sampling from a Beta posterior of every prompt's pass rate.

Idea       A prompt's past pass rate predicts its next one. A Beta posterior per prompt keeps the
           counts, and sampling from it explores uncertain prompts.
Equation   gamma ~ Beta(a, b); S_t = the B smallest (gamma - 0.5)^2 among m*B candidates;
           a <- lambda a + (1 - lambda) + k, b <- lambda b + (1 - lambda) + n - k after k of n.
Acts       before rollouts
Costs      nothing
Continuous k = sum of the rewards: fractional counts
Reference  Qu et al., MoPPS (model predictive prompt selection), arXiv 2507.04632; the choice "mapp"
           is the score of Ren et al., MaPP, 2026.
Deviations
1. Every posterior starts at Beta(1, 1): the published code can also start from earlier rollouts,
   which would have to be counted as a cost.
2. A prompt without a single reward keeps its posterior: nothing was observed.
3. "mapp" is only the score: MaPP also smooths the advantages, which are the engine's.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from metis.core import Batch, Decision, Group, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.errors import require, require_at_least
from metis.signal import top_b


@dataclass
class Mopps(Stateful):
    """Samples every candidate's pass rate from its Beta posterior and selects those near 0.5.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates (16; the authors use 8 outside MATH)
    choice        `topk`: samples nearest to `target`; `threshold`: any in [`low`, `high`], then the
                  nearest; `mapp`: in proportion to the probability of a mixed group
    target        the target pass rate (0.5)
    low, high     the band of `threshold` (0.3, 0.7)
    decay         lambda: 1 is no decay, 0.5 is for a policy that changes fast
    """

    needs: ClassVar = Needs(data="prompts that come round again")

    batch: int = 256
    group: int = 8
    multiplier: int = 16
    choice: Literal["topk", "threshold", "mapp"] = "topk"
    target: float = 0.5
    low: float = 0.3
    high: float = 0.7
    decay: float = 1.0

    posterior: dict[str, list[float]] = field(init=False, default_factory=dict)
    """a and b of every prompt rolled out so far."""

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1}, "curriculum.")
        for key in ("target", "low", "high", "decay"):
            value = getattr(self, key)
            require(0 <= value <= 1, f"curriculum.{key}", value, "use a number from 0 to 1")
        require(self.low <= self.high, "curriculum.low", self.low, "use at most curriculum.high")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.multiplier * self.batch)
        beliefs = [self.posterior.get(prompt.id, [1.0, 1.0]) for prompt in candidates]
        scores, chosen = self._choose(beliefs, progress.rng("choice"))
        taken = set(chosen)
        groups = yield from rollout([candidates[i] for i in sorted(chosen)], self.group)
        for group in groups:
            self._observe(group)
        return Batch(
            groups=groups,
            metrics={
                "select/candidates": float(len(candidates)),
                "select/known": float(sum(belief != [1.0, 1.0] for belief in beliefs)),
            },
            decisions=[
                Decision(prompt, i in taken, "chosen" if i in taken else "passed over", scores[i])
                for i, prompt in enumerate(candidates)
            ],
        )

    def _choose(
        self, beliefs: Sequence[Sequence[float]], rng: random.Random
    ) -> tuple[list[float], list[int]]:
        """The score of each candidate, and the positions of the selected ones."""
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

    def _observe(self, group: Group) -> None:
        """Update the posterior with a group: decay towards the prior, then add the counts.

        Only prompts that were rolled out decay.
        """
        if group.rewards:
            a, b = self.posterior.get(group.prompt.id, [1.0, 1.0])
            k, n = math.fsum(group.rewards), len(group.rewards)
            forgotten = 1.0 - self.decay
            after = [self.decay * a + forgotten + k, self.decay * b + forgotten + n - k]
            self.posterior[group.prompt.id] = after


def mixed_chance(a: float, b: float, n: int) -> float:
    """MaPP's score: the probability under Beta(a, b) that n rollouts are neither all-pass nor
    all-fail.

    E[1 - gamma^n - (1 - gamma)^n] = 1 - B(a + n, b) / B(a, b) - B(a, b + n) / B(a, b).
    """
    total = math.lgamma(a + b) - math.lgamma(a + b + n)
    all_pass = math.exp(math.lgamma(a + n) - math.lgamma(a) + total)
    all_fail = math.exp(math.lgamma(b + n) - math.lgamma(b) + total)
    return max(0.0, 1.0 - all_pass - all_fail)


def weighted(weights: Sequence[float], count: int, rng: random.Random) -> list[int]:
    """Weighted sampling of positions without replacement.

    The largest log(u) / w are such a sample (Efraimidis and Spirakis, 2006).
    """
    keys = [math.log(1.0 - rng.random()) / max(weight, 1e-12) for weight in weights]
    return top_b(keys, count, rng)
