"""The base class of curricula that keep a Beta posterior of every prompt's pass rate."""

import math
import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from metis.core import Batch, Group, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.selection import top_decisions
from metis.errors import require, require_at_least

PRIOR = [1.0, 1.0]
"""a and b of a prompt without outcomes."""


@dataclass
class Posterior(Stateful):
    """A curriculum that selects by Beta posteriors of pass rates.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates
    decay         lambda: 1 is no decay, 0.5 is for a policy that changes fast
    """

    needs: ClassVar = Needs(data="prompts that come round again")

    batch: int = 256
    group: int = 8
    multiplier: int = 16
    decay: float = 1.0

    posterior: dict[str, list[float]] = field(init=False, default_factory=dict)
    """a and b of every prompt rolled out so far."""

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1}, "curriculum.")
        require(0 <= self.decay <= 1, "curriculum.decay", self.decay, "use a number from 0 to 1")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.multiplier * self.batch)
        beliefs = [self.posterior.get(prompt.id, PRIOR) for prompt in candidates]
        scores, chosen = self._choose(beliefs, progress.rng("choice"))
        taken = set(chosen)
        groups = yield from rollout([candidates[i] for i in sorted(chosen)], self.group)
        for group in groups:
            self._observe(group)
        return Batch(
            groups=groups,
            metrics={
                "select/candidates": float(len(candidates)),
                "select/known": float(sum(belief != PRIOR for belief in beliefs)),
            },
            decisions=top_decisions(candidates, taken, scores, "chosen"),
        )

    @abstractmethod
    def _choose(
        self, beliefs: Sequence[Sequence[float]], rng: random.Random
    ) -> tuple[list[float], list[int]]:
        """The score of each candidate, and the positions of the selected ones."""

    def _observe(self, group: Group) -> None:
        """Update the posterior with a group: decay towards the prior, then add the counts.

        Only prompts that were rolled out decay.
        """
        if group.rewards:
            a, b = self.posterior.get(group.prompt.id, PRIOR)
            k, n = math.fsum(group.rewards), len(group.rewards)
            forgotten = 1.0 - self.decay
            after = [self.decay * a + forgotten + k, self.decay * b + forgotten + n - k]
            self.posterior[group.prompt.id] = after
