"""RAGEN-2's filter: train on the groups that carry most of the reward variance of a step.

Idea       Where a group's rewards hardly vary, regularisation and noise outweigh its gradient. The
           share of groups with a strong signal changes from step to step, so the filter keeps a
           share of the variance, not of the groups.
Equation   S_t = the groups of highest v, as few as reach sum v >= p * (sum of all v) - epsilon,
           and at most B, out of at most `rounds` rounds of m*B prompts.
Acts       after rollouts
Costs      the dropped rollouts; m*B more prompts in every further round
Continuous the same: v is defined for both
Reference  Wang et al., RAGEN-2: Reasoning Collapse in Agentic RL, arXiv 2604.06268; defaults of
           its released code ("linear", without groups of no variance).

Deviations
1. v is the population variance of a group's rewards (METIS, Eq. 3). The released code ranks by the
   standard deviation, the authors' patches to three trainers by the sample variance.
2. rounds: the released code trains on the batch that is left. With more rounds it is refilled, and
   the share is one of the variance of all groups of the step.
3. Groups of equal v are ordered at random, where the code keeps the order of the batch.
4. v > delta instead of v > 0, so that noise in a continuous reward is not taken for a signal.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from metis.core import Batch, Group, Plan, Progress
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import FULL, decided, dynamic_sampling, rollout_count, shortage
from metis.errors import require, require_at_least
from metis.signal import INFORMATIVE, top_b


@dataclass
class Ragen2(Stateful):
    """Keeps the groups with the highest variances, up to a share of the variance of all.

    batch, group  B prompts a step, n rollouts each
    keep          p: the share of the reward variance that is trained on; 1 is all of it (0.9)
    epsilon       this much less is enough, so that nothing is kept of hardly any variance (0.01)
    multiplier    m: m*B prompts are rolled out in a round (1)
    rounds        maximum rounds in a step: 1 trains on what is left of the batch, more refill it
    delta         a group is kept when its variance is above this
    """

    batch: int = 256
    group: int = 8
    keep: float = 0.9
    epsilon: float = 0.01
    multiplier: float = 1.0
    rounds: int = 1
    delta: float = INFORMATIVE

    least: float = field(init=False, default=0.0)
    """The lowest variance kept in the last step."""
    missing: int = field(init=False, default=FULL)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"epsilon": 0, "rounds": 1, "delta": 0}, "curriculum.")
        key, remedy = "curriculum.multiplier", "use a number above 0"
        require(0 < self.multiplier < math.inf, key, self.multiplier, remedy)
        remedy = "use a share above 0, up to 1"
        require(0 < self.keep <= 1, "curriculum.keep", self.keep, remedy)

    def keeps(self, group: Group) -> bool:
        """True where the group is trained on, as far as it alone and the last step say."""
        return group.teaches(self.delta) and (group.variance or 0.0) >= self.least

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        size = math.ceil(self.multiplier * self.batch)
        choose = partial(self.chosen, ties=progress.rng("ties"))
        sampled = yield from dynamic_sampling(
            pool, size, self.group, self.batch, self.rounds, choose
        )
        return self.filtered(*sampled)

    def chosen(self, groups: Sequence[Group], ties: random.Random) -> list[int]:
        """Positions of the groups to train on."""
        return sorted(self.prefix([group.variance for group in groups], ties))

    def prefix(self, variances: Sequence[float | None], ties: random.Random) -> list[int]:
        """Positions of the highest variances that make up the share p of all, at most B."""
        signal = [v if v is not None and v > self.delta else 0.0 for v in variances]
        share = self.keep * math.fsum(signal) - self.epsilon
        wanted = share if self.keep < 1 else math.inf
        chosen: list[int] = []
        reached = 0.0
        for i in top_b(signal, len(signal), ties):
            if reached >= wanted or len(chosen) == self.batch or not signal[i]:
                break
            chosen.append(i)
            reached += signal[i]
        return chosen

    def filtered(self, groups: Sequence[Group], kept: Sequence[int], rounds: int) -> Batch:
        """The batch of the chosen groups."""
        chosen = set(kept)
        trained = [group for i, group in enumerate(groups) if i in chosen]
        left = [group for i, group in enumerate(groups) if i not in chosen]
        dead = [group for group in left if not group.teaches(self.delta)]
        lower = [group for group in left if group.teaches(self.delta)]
        self.least = min((group.variance or 0.0 for group in trained), default=0.0)
        why = f"{len(left)} of {len(groups)} groups had little or no variance in {rounds} rounds"
        enough = 0.5 if self.rounds == 1 else 1.0
        self.missing, notices = shortage(len(trained), self.batch, self.missing, why, enough)
        return Batch(
            trained,
            metrics={
                "select/candidates": float(len(groups)),
                "select/rounds": float(rounds),
                "select/dead": float(len(dead)),
                "select/least": self.least,
                "select/discarded": rollout_count(left),
            },
            decisions=decided(trained, True, "kept")
            + decided(lower, False, "lower variance")
            + decided(dead, False, "dead"),
            notices=notices,
        )
