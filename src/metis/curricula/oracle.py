"""The ceiling of any judge: roll out all candidates, keep the most informative.

Idea       Measure v instead of predicting it, at the full cost.
Equation   S_t = TopB v(x) over all m*B candidates (METIS, Eq. 5 with v for v_theta).
Acts       after rollouts
Costs      m times the rollouts of a step
Continuous no difference: v is defined for both
Reference  Zheng et al., arXiv 2605.11235, Eq. 5.
Deviations
1. Eq. 5 ranks by the policy's true variance; this ranks by its estimate from n rollouts, and trains
   on the same rollouts, so that the batch looks better than on fresh ones (selection bias).
"""

from dataclasses import dataclass
from typing import ClassVar

from metis.core import Batch, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import rollout_count
from metis.curricula.selection import top_decisions
from metis.errors import require_at_least
from metis.signal import top_b


@dataclass
class Oracle(Stateful):
    """Rolls out every candidate and keeps the most informative: an upper bound, not a method.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates are rolled out (8)
    """

    needs: ClassVar = Needs(held="the rollouts of all candidates, until the best are known")

    batch: int = 256
    group: int = 8
    multiplier: int = 8

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1}, "curriculum.")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        candidates = pool.sample(self.multiplier * self.batch)
        groups = yield from rollout(candidates, self.group)
        variances = [group.variance for group in groups]
        chosen = set(top_b(variances, self.batch, progress.rng("ties")))
        left = [group for i, group in enumerate(groups) if i not in chosen]
        return Batch(
            groups=[group for i, group in enumerate(groups) if i in chosen],
            metrics={
                "select/candidates": float(len(candidates)),
                "select/discarded": rollout_count(left),
            },
            decisions=top_decisions(candidates, chosen, variances),
        )
