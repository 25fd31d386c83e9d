"""MoPPS: a Beta posterior of every prompt's pass rate; its draws decide who is rolled out.

Idea       What a prompt did before says what it will do next. A Beta per prompt keeps the counts,
           and choosing by draws from it explores what is uncertain.
Equation   gamma ~ Beta(a, b); S_t = the B smallest (gamma - 0.5)^2 among m*B candidates;
           a <- lambda a + (1 - lambda) + k, b <- lambda b + (1 - lambda) + n - k after k of n.
Acts       before rollouts
Costs      nothing
Continuous k = sum of the rewards: fractional counts
Reference  Qu et al., MoPPS (model predictive prompt selection), arXiv 2507.04632; the choice "mapp"
           is the score of Ren et al., MaPP, 2026.
Deviations
1. Every posterior starts at Beta(1, 1): the published code can also start from rollouts made
   beforehand, which would have to be counted as a cost.
2. A prompt whose rollouts all failed keeps its posterior: nothing was observed.
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
    """Draws every prompt's pass rate from its Beta posterior and takes those near 0.5.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates (16; the authors use 8 outside MATH)
    choice        `topk`: draws nearest to `target`; `threshold`: any in [`low`, `high`], filled up
                  with the nearest; `mapp`: at random, in proportion to the chance of a mixed group
    target        the pass rate to be near to (0.5)
    low, high     the band of `threshold` (0.3, 0.7)
    decay         lambda: 1 forgets nothing, 0.5 follows a policy that changes fast
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
    """a and b of every prompt that was rolled out."""

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
        """The score of each candidate, and the positions of the chosen."""
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
        """The posterior after a group: decay towards the prior, then the counts of valid rollouts.

        Only prompts that were rolled out decay.
        """
        if group.rewards:
            a, b = self.posterior.get(group.prompt.id, [1.0, 1.0])
            k, n = math.fsum(group.rewards), len(group.rewards)
            forgotten = 1.0 - self.decay
            after = [self.decay * a + forgotten + k, self.decay * b + forgotten + n - k]
            self.posterior[group.prompt.id] = after


def mixed_chance(a: float, b: float, n: int) -> float:
    """MaPP's score: the chance that, under Beta(a, b), n rollouts neither all pass nor all fail.

    E[1 - gamma^n - (1 - gamma)^n] = 1 - B(a + n, b) / B(a, b) - B(a, b + n) / B(a, b).
    """
    total = math.lgamma(a + b) - math.lgamma(a + b + n)
    all_pass = math.exp(math.lgamma(a + n) - math.lgamma(a) + total)
    all_fail = math.exp(math.lgamma(b + n) - math.lgamma(b) + total)
    return max(0.0, 1.0 - all_pass - all_fail)


def weighted(weights: Sequence[float], count: int, rng: random.Random) -> list[int]:
    """Distinct positions, drawn one after the other in proportion to their weights.

    The largest log(u) / w are such a draw (Efraimidis and Spirakis, 2006).
    """
    keys = [math.log(1.0 - rng.random()) / max(weight, 1e-12) for weight in weights]
    return top_b(keys, count, rng)
