"""Floors against starvation, under any curriculum: `curriculum.floors`.

A curriculum that prefers some prompts may never come back to others. With a floor, a share of every
batch goes to the prompts that were not rolled out for longest: B / N of B prompts a step, so that
none waits longer than N epochs. The curriculum selects the rest.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Decision, Group, Measure, Plan, Progress, Prompt, Rollout, rollout
from metis.core.needs import Needs, needs_of
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import rollout_count
from metis.errors import require


@dataclass(frozen=True)
class Floor:
    """How long prompts and categories may wait, under any curriculum.

    prompts     epochs after which every prompt is rolled out again, at the latest; takes a share of
                1 / `prompts` of the batch; 0 is no floor
    categories  epochs after which a prompt of every category is rolled out again; 0 is no floor
    """

    prompts: float = 0.0
    categories: float = 0.0

    def __post_init__(self) -> None:
        key, remedy = "curriculum.floors", "use 0 for no floor, or more"
        for name in ("prompts", "categories"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"{key}.{name}", value, remedy)
        fine = self.prompts == 0 or self.prompts > 1
        require(fine, f"{key}.prompts", self.prompts, "use 0 for no floor, or more than 1 epoch")


@dataclass
class Floors(Stateful):
    """A curriculum, with slots for what has waited longest."""

    of: Any
    floor: Floor

    last: NDArray[np.int64] = field(init=False, default_factory=lambda: np.zeros(0, np.int64))
    """When each prompt was last rolled out, by position; -1 is never."""
    clock: int = field(init=False, default=0)
    """Steps so far, without those that only measured."""

    def __post_init__(self) -> None:
        self.batch, self.group = int(self.of.batch), int(self.of.group)
        remedy = f"it takes {self.slots} of {self.batch} prompts: use more epochs or a larger batch"
        require(self.slots < self.batch, "curriculum.floors.prompts", self.floor.prompts, remedy)

    def __getattr__(self, name: str) -> Any:
        """What only the curriculum has, such as a judge or a filter."""
        if name.startswith("_") or name == "of":
            raise AttributeError(name)
        return getattr(self.of, name)

    @property
    def needs(self) -> Needs:
        return needs_of(self.of)

    @property
    def slots(self) -> int:
        """Slots of a batch for prompts."""
        return math.ceil(self.batch / self.floor.prompts) if self.floor.prompts else 0

    @property
    def room(self) -> int:
        """Slots of a batch that categories may have: all but those for prompts and a last one."""
        return self.batch - 1 - self.slots

    def check(self, pool: Pool) -> None:
        """Refuse a floor that a batch has no room for."""
        count = len(pool.categories)
        fine = not self.floor.categories or count <= self.room * self._limit(pool)
        remedy = f"{count} categories do not fit {self.room} of {self.batch} prompts a step: use "
        remedy += "more epochs or a larger batch"
        require(fine, "curriculum.floors.categories", self.floor.categories, remedy)
        check = getattr(self.of, "check", None)
        if check is not None:
            check(pool)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if len(self.last) != len(pool):
            self.last = np.full(len(pool), -1, np.int64)
        due = len(self._due(pool))
        reserved = min(self.slots + due, self.batch - 1)
        self.of.batch = self.batch - reserved
        touched: set[int] = set()
        batch, measured = yield from self._watch(self.of.step(pool, progress), pool, touched)
        if measured and not batch.groups:
            return batch
        touched |= {pool.positions[group.prompt.id] for group in batch.groups}
        room = min(reserved, self.batch - len(batch.groups))
        chosen = self._waiting(pool, progress, touched, room)
        self.last[[*touched, *chosen]] = self.clock
        self.clock += 1
        groups = yield from rollout([pool.prompts[i] for i in chosen], self.group)
        return self._joined(batch, groups, progress)

    def _watch(self, plan: Plan[Batch], pool: Pool, touched: set[int]) -> Plan[tuple[Batch, bool]]:
        """Pass a plan's requests on; positions that it rolls out, and True if it measures."""
        reply: Any = None
        measured = False
        while True:
            try:
                request = plan.send(reply)
            except StopIteration as end:
                return end.value, measured
            if isinstance(request, Measure):
                measured = True
            elif isinstance(request, Rollout):
                touched |= {pool.positions[prompt.id] for prompt in request.prompts}
            reply = yield request

    def _limit(self, pool: Pool) -> int:
        """Steps that a category may wait."""
        return max(1, int(self.floor.categories * len(pool) / self.batch))

    def _due(self, pool: Pool, free: NDArray[np.bool_] | None = None) -> list[NDArray[np.int64]]:
        """The members of each category whose turn it is, the one that waited longest first.

        Some come before they have to, if otherwise more than `room` would in a later step. `free`
        are the prompts that this step has not rolled out.
        """
        if not self.floor.categories or not len(pool):
            return []
        waits = [
            (self.clock - int(self.last[members].max()), members)
            for members in pool.categories.values()
            if free is None or free[members].all()
        ]
        waits.sort(key=lambda each: -each[0])
        room, limit = max(1, self.room), self._limit(pool)
        needed = (i + 1 - room * max(0, limit - wait) for i, (wait, _) in enumerate(waits))
        return [members for _, members in waits[: max(0, *needed, 0)]]

    def _waiting(
        self, pool: Pool, progress: Progress, touched: Collection[int], room: int
    ) -> list[int]:
        """Positions for the reserved slots: of categories that are due, then whatever is oldest."""
        rng = np.random.default_rng(progress.rng("floor").getrandbits(64))
        free = np.full(len(pool), True)
        free[list(touched)] = False
        chosen: list[int] = []
        for members in self._due(pool, free)[:room]:
            chosen += self._oldest(members, 1, rng)
        free[chosen] = False
        return chosen + self._oldest(np.flatnonzero(free), room - len(chosen), rng)

    def _oldest(
        self, members: NDArray[np.int64], count: int, rng: np.random.Generator
    ) -> list[int]:
        """The members that were not rolled out for longest, ties at random."""
        count = min(count, len(members))
        if not count:
            return []
        last = self.last[members]
        cut = np.partition(last, count - 1)[count - 1]
        oldest, tied = members[last < cut], members[last == cut]
        drawn = rng.choice(tied, count - len(oldest), replace=False)
        return [int(i) for i in (*oldest, *drawn)]

    def _joined(self, batch: Batch, groups: list[Group], progress: Progress) -> Batch:
        """The batch of the curriculum with the groups of the floor, as far as it keeps them."""
        keeps = getattr(self, "keeps", None)
        kept = [group for group in groups if keeps is None or keeps(group)]
        lost = rollout_count(group for group in groups if group not in kept)
        whole = [*batch.groups, *kept]
        progress.rng("floor order").shuffle(whole)  # so that mini-batches mix both
        taken: dict[str, Prompt] = {group.prompt.id: group.prompt for group in groups}
        metrics = {**batch.metrics, "select/floor": float(len(groups))}
        if keeps is not None:
            metrics["select/discarded"] = metrics.get("select/discarded", 0.0) + lost
        if len(self.last):
            metrics["select/waiting"] = float(self.clock - 1 - self.last.min())
        others = [each for each in batch.decisions if each.prompt.id not in taken]
        floor = [Decision(prompt, True, "floor") for prompt in taken.values()]
        return replace(batch, groups=whole, metrics=metrics, decisions=[*others, *floor])
