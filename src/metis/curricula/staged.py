"""Staged: domains in stages, such as mathematics alone and then everything.

Idea       Training transfers between domains: train on one first, then on the mixture.
Equation   S_t = the next B prompts of the categories of stage s, s by the share of budget spent.
Acts       before rollouts
Costs      nothing
Continuous unchanged: it sees no rewards
Reference  Pang et al., Reasoning Curriculum, arXiv 2510.26143
Deviations
1. The paper's supervised cold start is not included: start from a model that had one.
2. Without `stages`, the first category is trained on first, then all; the paper's first is
   mathematics, which has to be named, since its label depends on the data.
3. The mixture is that of the training set; the paper's was composed by hand.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import ClassVar

import numpy as np

from metis.core import Batch, Decision, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool, Subset
from metis.core.state import Stateful
from metis.curricula.arms.partition import label_order, require_labels
from metis.errors import require, require_at_least

Stage = str | tuple[str, ...]


@dataclass
class Staged(Stateful):
    """Domains in stages: some categories first, others later.

    batch, group  B prompts a step, n rollouts each
    stages        the category, or list of categories, of each stage, with * as a wildcard:
                  ["math", ["math", "code"], "*"]; by default the easiest category (the first by
                  name if difficulties are not known), then all
    switch        shares of the budget at which the next stage starts: [0.5]; by default stages of
                  equal length
    """

    needs: ClassVar = Needs(data="categories")

    batch: int = 256
    group: int = 8
    stages: tuple[Stage, ...] = ()
    switch: tuple[float, ...] = ()

    stage: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require(
            all(self.stages),
            "curriculum.stages",
            list(self.stages),
            'name at least one category in each stage; "*" is all of them',
        )
        bounds = [0.0, *self.switch, 1.0]
        require(
            all(low < high for low, high in pairwise(bounds)),
            "curriculum.switch",
            list(self.switch),
            "use growing shares of the budget, between 0 and 1",
        )
        count = len(self.stages) or 2
        require(
            len(self.switch) in (0, count - 1),
            "curriculum.switch",
            list(self.switch),
            f"give {count - 1} for {count} stages, or none for stages of equal length",
        )

    def check(self, pool: Pool) -> None:
        """Refuse stages with unknown categories."""
        self._stages(pool)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if not len(pool):
            return Batch([])
        stages = self._stages(pool)
        before, self.stage = self.stage, self._now(progress.fraction, len(stages))
        categories = stages[self.stage]
        members = np.sort(np.concatenate([pool.categories[name] for name in categories]))
        prompts = pool.sample(self.batch, among=Subset(f"stage {self.stage + 1}", members))
        groups = yield from rollout(prompts, self.group)
        number, size = self.stage + 1, len(members)
        shown = ", ".join(map(repr, categories[:8])) + (", ..." if categories[8:] else "")
        notice = f"stage {number} of {len(stages)}: {size} prompts of {shown}"
        return Batch(
            groups,
            metrics={"select/stage": float(number), "select/stage_prompts": float(size)},
            decisions=[Decision(prompt, True, f"stage {number}") for prompt in prompts],
            notices=[notice] if self.stage != before else [],
        )

    def _stages(self, pool: Pool) -> list[list[str]]:
        """The categories of every stage."""
        stages = self.stages
        if not stages:
            require_labels(pool, "curriculum.stages = []", "use another curriculum")
            stages = (label_order(pool)[0], "*")
        return [self._expand(stage, pool) for stage in stages]

    def _expand(self, stage: Stage, pool: Pool) -> list[str]:
        """The categories that match the names of a stage."""
        meant: set[str] = set()
        for name in (stage,) if isinstance(stage, str) else stage:
            matches = {c for c in pool.categories if c == name or fnmatchcase(c, name)}
            remedy = f"the training set has the categories {', '.join(map(repr, pool.categories))}"
            require(bool(matches), "curriculum.stages", name, remedy)
            meant |= matches
        return sorted(meant)

    def _now(self, fraction: float, stages: int) -> int:
        """The stage at a share of the budget; stages never go back."""
        switches = self.switch or [i / stages for i in range(1, stages)]
        return max(self.stage, sum(fraction >= switch for switch in switches))
