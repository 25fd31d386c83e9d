"""MaPP: prompts in proportion to the probability that their group will be mixed.

Idea       What counts is whether a group has a gradient, that is whether its rewards differ. Under
           a Beta posterior of the pass rate the probability of that has a closed form, which takes
           into account both the pass rate and how surely it is known.
Equation   s = E[1 - gamma^n - (1 - gamma)^n] = 1 - B(a + n, b) / B(a, b) - B(a, b + n) / B(a, b);
           P(x in S_t) ~ s, without replacement, among m*B candidates;
           a <- lambda a + (1 - lambda) + k, b <- lambda b + (1 - lambda) + n - k after k of n.
Acts       before rollouts
Costs      nothing
Continuous k = sum of the rewards: fractional counts
Reference  Ren et al., MaPP, 2026.
Deviations
1. Selection only: MaPP also smooths the advantages by the posterior, which are the engine's.
2. The paper's candidates and rate of decay could not be consulted: m and the rule of decay are
   those of MoPPS, and lambda is what its authors use for a policy that changes fast.
3. A prompt without a single reward keeps its posterior: nothing was observed.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from metis.curricula.posterior import Posterior
from metis.signal import top_b


@dataclass
class Mapp(Posterior):
    """Samples prompts in proportion to the probability of a mixed group.

    decay         lambda: 1 is no decay (0.5)
    """

    decay: float = 0.5

    def _choose(
        self, beliefs: Sequence[Sequence[float]], rng: random.Random
    ) -> tuple[list[float], list[int]]:
        chances = [mixed_chance(a, b, self.group) for a, b in beliefs]
        return chances, weighted(chances, self.batch, rng)


def mixed_chance(a: float, b: float, n: int) -> float:
    """The probability under Beta(a, b) that n rollouts are neither all-pass nor all-fail."""
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
