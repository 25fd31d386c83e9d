"""VCRL: drop groups of low variance, refill from a bank of prompts that had a high one.

Idea       The variance of a group's rewards, as a share of the largest possible, says how close a
           prompt is to the frontier of the policy's ability. Prompts far from it are not trained
           on; prompts that were near it are rolled out again instead.
Equation   p = variance / largest variance = 4 k (n - k) / n^2 for k of n (even) right;
           S_t = fresh prompts with p >= kappa, and those of the bank with the highest priority;
           P <- alpha P + (1 - alpha) p.
Acts       after rollouts
Costs      the dropped rollouts; up to B replays in a second phase
Continuous kappa is a quantile of p in the last 10 steps
Reference  Jiang et al., VCRL, arXiv 2509.19803.

Deviations
1. The paper's own priority (its Eq. 11) could not be consulted, and there is no public code: P is a
   moving average here. A prompt enters the bank with P = p; ties are broken at random; it leaves
   after its last replay, with a P or a new p below kappa, or if not renewed for an epoch; of more
   than 4 B prompts those with the lowest P leave.
2. A replay below kappa is dropped like a fresh group. With an empty bank the batch is short:
   rejected groups never fill it.
3. A group with rewards for fewer than half of its rollouts has p = 0: two different ones are p = 1.
4. Continuous rewards hardly ever reach p = 0.8, so kappa is the median of what fresh prompts had.
"""

import math
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from metis.core import Batch, Group, Plan, Progress, rollout
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import FULL, decided, rollout_count, shortage
from metis.errors import require, require_at_least
from metis.signal import INFORMATIVE, VARIANCE_MAX, top_b


class BankEntry(NamedTuple):
    """A prompt of the bank: its priority, and the step of its last update."""

    priority: float
    step: int


@dataclass
class Vcrl(Stateful):
    """Trains on groups of high variance and replays their prompts.

    batch, group  B prompts a step, n rollouts each
    kappa         the minimum p to train on, at first (0.3)
    kappa_late    the same from step `switch` on (0.8)
    switch        steps before kappa_late applies (20)
    momentum      alpha of the priorities (0.9)
    replays       maximum replays of a prompt in a run (2)
    capacity      size of the bank, as a multiple of B (4)
    quantile      continuous rewards: kappa is this quantile of the fresh prompts' p
    window        continuous rewards: steps of the quantile
    """

    batch: int = 256
    group: int = 8
    kappa: float = 0.3
    kappa_late: float = 0.8
    switch: int = 20
    momentum: float = 0.9
    replays: int = 2
    capacity: float = 4.0
    quantile: float = 0.5
    window: int = 10

    bank: dict[str, BankEntry] = field(init=False, default_factory=dict)
    replayed: dict[str, int] = field(init=False, default_factory=dict)
    recent: list[list[float]] = field(init=False, default_factory=list)
    """p of the fresh groups of each step in the window, for continuous rewards."""
    least: float = field(init=False, default=0.0)
    """kappa as it is known before the outcomes of a step."""
    missing: int = field(init=False, default=FULL)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"switch": 0, "replays": 0, "window": 1}, "curriculum.")
        key, remedy = "curriculum.capacity", "use a number, 0 or more"
        require(0 <= self.capacity < math.inf, key, self.capacity, remedy)
        for name in ("kappa", "kappa_late", "momentum", "quantile"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"curriculum.{name}", value, "use a number from 0 to 1")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict({"least": 0.0, **state})  # which earlier checkpoints lack
        self.bank = {prompt: BankEntry(*entry) for prompt, entry in self.bank.items()}

    def keeps(self, group: Group) -> bool:
        """True where the group is trained on, as far as it alone says."""
        return relative_variance(group) >= self.least

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        self.least = self._kappa(pool, progress, [])
        fresh = yield from rollout(pool.sample(self.batch), self.group)
        kappa = self._kappa(pool, progress, fresh)
        kept = [group for group in fresh if relative_variance(group) >= kappa]
        popped = self._pop(self.batch - len(kept), kappa, fresh, progress.rng("ties"))
        again = yield from rollout([pool[prompt] for prompt in popped], self.group)
        held = [group for group in again if relative_variance(group) >= kappa]
        groups = kept + held
        progress.rng("order").shuffle(groups)  # so that mini-batches mix fresh and replayed
        dropped = [group for group in fresh + again if relative_variance(group) < kappa]
        self._remember(groups, dropped, progress, epoch=len(pool) / self.batch)
        why = f"{len(dropped)} groups were below kappa, and the bank had {len(again)} to replay"
        self.missing, notices = shortage(len(groups), self.batch, self.missing, why, enough=0.5)
        return Batch(
            groups,
            metrics={
                "select/candidates": float(len(fresh)),
                "select/kappa": kappa,
                "select/rerolled": float(len(again)),
                "select/bank": float(len(self.bank)),
                "select/discarded": rollout_count(dropped),
            },
            decisions=decided(kept, True, "fresh")
            + decided(held, True, "replay")
            + decided(dropped, False, "below kappa"),
            notices=notices,
        )

    def _kappa(self, pool: Pool, progress: Progress, fresh: list[Group]) -> float:
        """The minimum p to train on, above 0."""
        kappa = self.kappa if progress.step < self.switch else self.kappa_late
        if pool.rewards == "continuous" and fresh:
            self.recent = [*self.recent, [relative_variance(group) for group in fresh]][
                -self.window :
            ]
        if pool.rewards == "continuous" and self.recent:
            kappa = float(np.quantile(np.concatenate(self.recent), self.quantile))
        return max(kappa, INFORMATIVE / VARIANCE_MAX)

    def _pop(self, count: int, kappa: float, drawn: list[Group], ties: random.Random) -> list[str]:
        """The prompts of the bank with the highest priorities, not sampled in this step."""
        self.bank = {name: entry for name, entry in self.bank.items() if entry.priority >= kappa}
        ids = {group.prompt.id for group in drawn}
        free = [name for name in self.bank if name not in ids]
        best = top_b([self.bank[name].priority for name in free], count, ties)
        for i in best:
            self.replayed[free[i]] = self.replayed.get(free[i], 0) + 1
        return [free[i] for i in best]

    def _remember(
        self, groups: list[Group], dropped: list[Group], progress: Progress, epoch: float
    ) -> None:
        """Update the bank: renew kept prompts; drop rejected, used-up and old ones."""
        step, most = progress.step, int(self.capacity * self.batch)
        for group in dropped:
            self.bank.pop(group.prompt.id, None)
        for group in groups:
            name, p = group.prompt.id, relative_variance(group)
            before = self.bank.pop(name, BankEntry(p, step))
            if self.replayed.get(name, 0) < self.replays:
                priority = self.momentum * before.priority + (1 - self.momentum) * p
                self.bank[name] = BankEntry(priority, step)
        kept = [(name, entry) for name, entry in self.bank.items() if step - entry.step <= epoch]
        best = top_b([entry.priority for _, entry in kept], most, progress.rng("capacity"))
        self.bank = dict(kept[i] for i in sorted(best))


def relative_variance(group: Group) -> float:
    """p: the group's variance as a share of the largest that n rewards can have; 0 if undefined.

    The largest is 1/4, or (n^2 - 1) / 4 n^2 for odd n; the ddof bias cancels.
    """
    n = len(group.rewards)
    if n < group.failed:
        return 0.0
    odd = n**2 / (n**2 - 1) if n % 2 and n > 1 else 1.0
    return (group.variance or 0.0) / VARIANCE_MAX * odd
