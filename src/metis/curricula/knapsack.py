"""Knapsack RL: a budget of rollouts, divided so that most of a step's groups have a gradient.

Idea       A hard prompt needs many rollouts to pass once, an easy one many to fail once; prompts
           that always pass or fail need none. Rollouts are the weight of a knapsack, the
           probability of a mixed group times what the prompt may gain is the value.
Equation   maximise sum_i (1 - p_i^n_i - (1 - p_i)^n_i) p_i (1 - p_i)^2 over the n_i of prompts
           with 0 < p < 1, sum n_i = B n, least <= n_i <= most; p the mean of the last 16 rewards.
Acts       before rollouts
Costs      nothing; with another judge, what that costs
Continuous p is the mean reward
Reference  Li et al., Knapsack RL, arXiv 2509.25849; defaults of its released code.
Deviations
1. The value of n_i is concave, so the highest marginal values are the optimum: no dynamic
   programming. The released table starts each prompt at no value instead of that of `least`
   rollouts, so that the first further rollout of a prompt has the value of all of its rollouts.
2. What is left when every mixed prompt has its mixed group with probability 0.9 goes to
   prompts with p = 0, else to those with p = 1, as in the released code; but no prompt has more
   than `most`, and the rollouts for 0.9 include `least`, rounded up: the code counts them beside
   `least`, rounded down, and so leaves less.
3. A prompt with fewer than `judge.enough` rewards has n rollouts, as in the released code, where
   it also gets of what is left, as if p were 0. With n = 8 that is one earlier group.
4. With another judge p is its prediction. A judge that predicts the variance alone does not say
   whether a prompt is hard or easy: it is taken for hard, the lower p of p (1 - p) = v.
5. The loss is the engine's, a mean over rollouts: a prompt with more of them weighs more. The
   released code's is a mean over tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis.curricula.allocation import Allocation, Counts, Floats, divide, evenly, pass_rate
from metis.curricula.judges import History, Judge, Prediction

CONFIDENCE = 0.9
"""Probability of a mixed group from which on further rollouts are to spare."""


@dataclass
class Knapsack(Allocation):
    """Divides the rollouts of a uniform batch by the probability that groups become mixed.

    least, most   rollouts of a prompt (2, 128)
    judge         `history`: the mean of the prompt's own last rewards; or any other judge
    """

    batch: int = 256
    group: int = 8
    least: int = 2
    most: int = 128
    judge: Judge[Any] = field(default_factory=History)

    def allocate(self, predictions: Sequence[Prediction]) -> Counts:
        rates = np.array([np.nan if (p := pass_rate(x)) is None else p for x in predictions])
        counts: Counts = np.where(np.isnan(rates), self.group, self.least)
        budget, mixed = self.group * len(rates), (rates > 0) & (rates < 1)

        def room(who: NDArray[np.bool_]) -> Counts:
            return np.asarray(who * (self.most - counts))

        spare = max(0, budget - int(counts.sum()) - int(self._wanted(rates[mixed]).sum()))
        for others in (rates == 0, rates == 1):
            given = evenly(room(others), spare)
            counts, spare = counts + given, spare - int(given.sum())
        counts += divide(self._gains(rates), room(mixed), budget - int(counts.sum()))
        counts += evenly(room(counts < self.most), budget - int(counts.sum()))
        return counts

    def _wanted(self, rates: Floats) -> Counts:
        """Rollouts beyond `least` until a group is mixed with probability 0.9."""
        wanted = math.log(1 - CONFIDENCE) / np.log1p(-np.minimum(rates, 1 - rates))
        beyond = np.ceil(np.minimum(wanted, self.most)) - self.least
        return np.asarray(np.maximum(beyond, 0), dtype=np.int64)

    def _gains(self, rates: Floats) -> Floats:
        """What each rollout beyond `least` adds to the value: p^n (1 - p) + (1 - p)^n p more."""
        p = np.nan_to_num(rates)[:, None]
        n = np.arange(self.least, max(self.most, self.least + 1))
        return np.asarray((p**n * (1 - p) + (1 - p) ** n * p) * p * (1 - p) ** 2)
