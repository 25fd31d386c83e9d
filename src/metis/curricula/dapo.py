"""DAPO's dynamic sampling: roll out, drop all-pass and all-fail groups, until the batch is full.

Idea       A group whose rewards are all equal has no gradient. Dropping it keeps the direction and
           the size of the update, at the cost of the dropped rollouts.
Equation   S_t = the first B groups with v > delta, out of at most `rounds` rounds of m*B prompts.
Acts       after rollouts
Costs      (m - 1) B prompts rolled out; m*B more in every further round
Continuous the same: v > delta
Reference  Yu et al., DAPO, arXiv 2503.14476, Section 3.2; defaults of its released training script.

Deviations
1. At the limit of rounds a short batch is trained with a notice, where the authors' code raises.
2. v > delta instead of std > 0, so that noise in a continuous reward is not taken for a signal.
3. No prompt is sampled twice in a step, so a small training set can end it before `rounds`.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from metis.core import Batch, Group, Plan, Progress
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import FULL, decided, dynamic_sampling, rollout_count, shortage
from metis.errors import require, require_at_least
from metis.signal import INFORMATIVE


@dataclass
class Dapo(Stateful):
    """Rolls out until the batch is full of informative groups.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: the generation batch, m*B prompts are rolled out in a round (3)
    rounds        maximum rounds in a step (10)
    delta         a group is kept when its variance is above this
    """

    batch: int = 256
    group: int = 8
    multiplier: float = 3.0
    rounds: int = 10
    delta: float = INFORMATIVE

    missing: int = field(init=False, default=FULL)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"rounds": 1, "delta": 0}, "curriculum.")
        key, remedy = "curriculum.multiplier", "use a number above 0"
        require(0 < self.multiplier < math.inf, key, self.multiplier, remedy)

    def keeps(self, group: Group) -> bool:
        """True where the group is trained on, as far as it alone says."""
        return group.teaches(self.delta)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        size = math.ceil(self.multiplier * self.batch)
        sampled = yield from dynamic_sampling(
            pool, size, self.group, self.batch, self.rounds, self.chosen
        )
        return self.filtered(*sampled)

    def chosen(self, groups: Sequence[Group], ties: random.Random | None = None) -> list[int]:
        """Positions of the groups to train on."""
        return [i for i, group in enumerate(groups) if self.keeps(group)][: self.batch]

    def filtered(self, rolled: Sequence[Group], chosen: Sequence[int], rounds: int) -> Batch:
        """The batch of the chosen groups."""
        groups = [rolled[i] for i in chosen]
        kept = [group for group in rolled if self.keeps(group)]
        dead = [group for group in rolled if not self.keeps(group)]
        surplus = kept[len(groups) :]
        why = f"{len(dead)} of {len(rolled)} groups had no variance in {rounds} rounds"
        self.missing, notices = shortage(len(groups), self.batch, self.missing, why)
        return Batch(
            groups,
            metrics={
                "select/candidates": float(len(kept + dead)),
                "select/rounds": float(rounds),
                "select/dead": float(len(dead)),
                "select/discarded": rollout_count(dead + surplus),
            },
            decisions=decided(groups, True, "kept")
            + decided(surplus, False, "surplus")
            + decided(dead, False, "dead"),
            notices=notices,
        )
