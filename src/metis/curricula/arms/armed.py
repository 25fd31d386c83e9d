"""The base class of curricula with arms: built once, saved, sampled from and reported.

If the data has neither the wanted categories nor difficulties, they are measured before training,
a bounded number of prompts per step. Such a step returns an empty batch, so that a run can be
resumed in between, and counts towards the budget.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Decision, Embed, Group, Plan, Progress, Prompt, embed, measure
from metis.core.needs import Needs
from metis.core.pool import Pool, Subset
from metis.core.state import Stateful
from metis.curricula.arms.partition import (
    Partition,
    by_cluster,
    by_label,
    by_quantile,
    difficulties,
    draw_arms,
    kmeans,
    project,
)
from metis.curricula.filtering import rollout_count
from metis.curricula.profiled import cost_notice, measuring_notice
from metis.errors import require_at_least

CATEGORIES = "categories: labels, difficulties or hidden states"
SHOWN = 32
"""Maximum number of arms that are logged individually."""


class Draw(NamedTuple):
    """The prompts of a step, with their arms."""

    prompts: list[Prompt]
    arms: list[int]


@dataclass
class Armed(Stateful):
    """A curriculum that samples from arms.

    batch, group  B prompts a step, n rollouts each
    categories    what an arm is: a `label` of the data · a quantile of `difficulty`, from the data
                  or measured with the initial policy · one of `clusters` of the policy's hidden
                  states · `auto`: the data's difficulty, or else clusters
    arms          number of arms (10); with `label` there is one per label
    measure       rollouts per prompt to measure its difficulty (4, which distinguish five pass
                  rates; arms of the same pass rate are equivalent)
    """

    batch: int = 256
    group: int = 8
    categories: Literal["label", "difficulty", "clusters", "auto"] = "label"
    arms: int = 10
    measure: int = 4

    names: list[str] = field(init=False, default_factory=list)
    arm_of: NDArray[np.int64] = field(init=False, default_factory=lambda: np.zeros(0, np.int64))
    measured: list[Any] = field(init=False, default_factory=list)
    """An array per measuring step so far: difficulties or vectors, in the order of prompts."""
    distinct: int = field(init=False, default=0)
    """Number of distinct difficulties; with fewer than arms, some arms are equivalent."""
    start: float | None = field(init=False, default=None)
    """Share of the budget spent when training started."""
    basis: str = field(init=False, default="")
    """The resolved kind of `categories`, also for `auto`."""

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"arms": 1, "measure": 1}, "curriculum.")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.arm_of = np.asarray(self.arm_of, dtype=np.int64)  # earlier checkpoints have a list

    @property
    def needs(self) -> Needs:
        clustered = self.categories in ("clusters", "auto")
        requests = frozenset({Embed} if clustered else ())
        return Needs(requests, data=CATEGORIES, in_turn=not self.names)

    def check(self, pool: Pool) -> None:
        """Refuse data without labels, where they define the arms."""
        if self.categories == "label":
            self.labelled(pool)

    def prepare(self, pool: Pool, progress: Progress) -> Plan[Batch | None]:
        """Build the arms; the empty batch of a measuring step, or None once there are arms."""
        if not len(pool):
            return Batch([])
        if len(self.arm_of):
            return None
        difficulty, self.basis = difficulties(pool), self.categories
        if self.basis == "auto":
            self.basis = "clusters" if difficulty is None else "difficulty"
        if self.basis == "label":
            self._divide(self.labelled(pool))
            return None
        self.check(pool)
        if self.basis == "difficulty" and difficulty is not None:
            self._divide(self._quantiles(difficulty, progress))
            return None
        return (yield from self._measure(pool, progress))

    def labelled(self, pool: Pool) -> Partition:
        """The arms by the data's labels."""
        return by_label(pool)

    def _divide(self, partition: Partition) -> None:
        self.names, self.arm_of = partition.names, np.array(partition.arm_of, dtype=np.int64)
        self.measured = []

    def _measure(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        """One measuring step, with at most the rollouts of a training step."""
        done, rollouts = sum(map(len, self.measured)), self.batch * self.group
        if self.basis == "clusters":
            # A forward pass is cheaper than a rollout.
            per_step, noun = 8 * rollouts, "hidden states"
            part = pool.prompts[done : done + per_step]
            vectors = yield from embed(part)
            directions = Progress(0, seed=progress.seed).rng("projection")
            self.measured.append(project(vectors, directions))
            discarded = 0.0
        else:
            per_step, noun = max(1, rollouts // self.measure), "difficulty"
            part = pool.prompts[done : done + per_step]
            groups = yield from measure(part, self.measure)
            means = [math.nan if group.mean is None else group.mean for group in groups]
            self.measured.append(1.0 - np.array(means))
            discarded = rollout_count(groups)
        metrics = {"select/discarded": discarded, "select/measured": float(done + len(part))}
        if done + len(part) == len(pool):
            self._divide(self._conclude(pool, progress))
        steps = math.ceil(len(pool) / per_step)
        spared = self.measure * len(pool) if self.categories == "auto" else 0
        warning = cost_notice(steps, progress.fraction) if done == per_step else []
        notices = warning if done else [measuring_notice(noun, len(pool), steps, spared)]
        return Batch([], metrics=metrics, notices=notices)

    def _conclude(self, pool: Pool, progress: Progress) -> Partition:
        values = np.concatenate(self.measured)
        if self.basis == "clusters":
            return by_cluster(kmeans(values, self.arms, progress.rng("kmeans")), difficulties(pool))
        return self._quantiles(values, progress)

    def _quantiles(self, values: NDArray[np.float64], progress: Progress) -> Partition:
        self.distinct = len(np.unique(values[~np.isnan(values)]))
        return by_quantile(values, self.arms, progress.rng("ties"))

    def sample(
        self, pool: Pool, chances: NDArray[np.float64], progress: Progress, whole: bool = False
    ) -> Draw:
        """Sample an arm for each slot of the batch, and the next prompts of each arm."""
        members = self._members()
        sizes = [len(part) for part in members]
        arms = draw_arms(chances, sizes, self.batch, progress.rng("arms"), whole)
        progress.rng("order").shuffle(arms)  # so that mini-batches mix arms
        drawn = {
            arm: iter(pool.sample(count, among=self._subset(arm, members[arm])))
            for arm, count in Counter(arms).items()
        }
        return Draw([next(drawn[arm]) for arm in arms], arms)

    def _members(self) -> list[NDArray[np.int64]]:
        return [np.flatnonzero(self.arm_of == arm) for arm in range(len(self.names))]

    def _subset(self, arm: int, members: NDArray[np.int64]) -> Subset:
        return Subset(f"{self.basis} {self.names[arm]}", members)

    def report(
        self,
        progress: Progress,
        groups: Sequence[Group],
        arms: Sequence[int],
        chances: NDArray[np.float64],
        values: Sequence[float] | None = None,
    ) -> Batch:
        """The batch, with the value and probability of each arm as metrics."""
        metrics = {"select/arms": float(len(self.names)), "select/discarded": 0.0}
        notices: list[str] = []
        sizes = Counter(dict(enumerate(np.bincount(self.arm_of).tolist())))
        opening = self.start is None
        if opening:
            self.start = progress.fraction
            notices = [self.introduce(sizes)]
        for arm in range(len(self.names) if len(self.names) <= SHOWN else 0):
            metrics[f"select/arm_{arm}_chance"] = float(chances[arm])
            if values is not None:
                metrics[f"select/arm_{arm}_value"] = values[arm]
            if opening:
                metrics[f"select/arm_{arm}_size"] = float(sizes[arm])
        scores: Sequence[float | None] = values or [None] * len(self.names)
        decisions = [
            Decision(group.prompt, True, f"arm {self.names[arm]}", scores[arm])
            for group, arm in zip(groups, arms, strict=True)
        ]
        return Batch(groups, metrics=metrics, decisions=decisions, notices=notices)

    def introduce(self, sizes: Counter[int]) -> str:
        """The notice that lists the arms, when training starts."""
        shown = [f"{name or 'no label'} ({sizes[arm]})" for arm, name in enumerate(self.names)]
        more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
        values = f" (distinct values: {self.distinct})" if self.distinct else ""
        text = f"{len(shown)} arms by {self.basis}{values}: {', '.join(shown[:SHOWN])}{more}"
        if min(sizes.values()) < self.batch:
            text += f"; an arm fills at most as many of the {self.batch} slots as it has prompts"
        return text
