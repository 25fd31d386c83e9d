"""No curriculum: prompts in shuffled order, the paper's "No Curriculum" baseline.

Idea       Uniform sampling without replacement.
Equation   S_t = the next B prompts of the epoch.
Acts       before rollouts
Costs      nothing
Continuous no difference
Reference  The usual loop of GRPO (Shao et al., arXiv 2402.03300).
Deviations none.
"""

from dataclasses import dataclass
from typing import ClassVar

from metis.core import Batch, Decision, Plan, Progress, rollout
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.errors import require_at_least


@dataclass
class Uniform(Stateful):
    """Prompts in shuffled order, without a curriculum.

    batch, group  B prompts a step, n rollouts each
    """

    presets: ClassVar[dict[str, dict[str, object]]] = {"published": {}, "paper": {}}

    batch: int = 256
    group: int = 8

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        prompts = pool.sample(self.batch)
        groups = yield from rollout(prompts, self.group)
        return Batch(groups, decisions=[Decision(prompt, True, "next") for prompt in prompts])
