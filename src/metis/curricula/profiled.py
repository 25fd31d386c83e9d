"""The base class of curricula that know the pass rate of every prompt, from a file or measured.

What no file says is measured before training, a bounded number of prompts per step. Such a step
returns an empty batch, so that a run can be resumed in between, and counts towards the budget.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Plan, Progress, measure
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import rollout_count
from metis.curricula.measurement import cost_notice, measuring_notice
from metis.curricula.pass_rates import KEY, read_rates
from metis.errors import require, require_at_least


@dataclass
class Profiled(Stateful):
    """A curriculum that knows the pass rate of every prompt.

    batch, group  B prompts a step, n rollouts each
    rates         a file of pass rates: `outcomes.jsonl` of `metis survey`, what its --keep writes,
                  or `ranking.jsonl` of `metis judge`; prompts that are not in it are measured
    measure       rollouts per prompt to measure its pass rate (8)
    """

    batch: int = 256
    group: int = 8
    rates: str = ""
    measure: int = 8

    known: NDArray[np.float64] = field(init=False, default_factory=lambda: np.zeros(0))
    """The pass rate of each prompt, by position; NaN where there is none."""
    place: int = field(init=False, default=0)
    """Prompts before this position are done."""
    complete: bool = field(init=False, default=False)
    """True once all prompts are done."""
    rounds: int = field(init=False, default=0)
    """Measuring steps since the last time that all were known."""
    began: float = field(init=False, default=0.0)
    """Share of the budget spent before them."""

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"measure": 1}, "curriculum.")

    @property
    def needs(self) -> Needs:
        return Needs(data="pass rates: from a file, or measured", in_turn=not self.complete)

    def check(self, pool: Pool) -> None:
        """Refuse a file that cannot be read, or that is of other prompts."""
        if self.rates and not self.complete:
            self._read(pool)

    def prepare(self, pool: Pool, progress: Progress) -> Plan[Batch | None]:
        """Know all pass rates; the empty batch of a measuring step, or None once they are known."""
        if not len(pool):
            return Batch([])
        if self.complete:
            return None
        if not len(self.known):
            self.known = self._read(pool) if self.rates else np.full(len(pool), np.nan)
        unknown = self._unknown()
        if not len(unknown):
            self.complete = True
            return None
        return (yield from self._measure(pool, progress, unknown))

    def forget(self) -> None:
        """Measure all prompts again."""
        self.known = np.full(len(self.known), np.nan)
        self.place, self.complete, self.rounds = 0, False, 0

    def filled(self) -> NDArray[np.float64]:
        """Pass rates, with the mean for prompts that could not be measured."""
        missing = np.isnan(self.known)
        average = 0.5 if missing.all() else float(self.known[~missing].mean())
        return np.where(missing, average, self.known)

    def _unknown(self) -> NDArray[np.int64]:
        return self.place + np.flatnonzero(np.isnan(self.known[self.place :]))

    def _read(self, pool: Pool) -> NDArray[np.float64]:
        rates = read_rates(self.rates)
        known = np.array([rates.get(prompt.id, np.nan) for prompt in pool.prompts], np.float64)
        remedy = (
            f"it has none of the {len(pool)} prompts of the training set: are the ids the same?"
        )
        require(not len(pool) or not np.isnan(known).all(), KEY, self.rates, remedy)
        return known

    def _measure(self, pool: Pool, progress: Progress, unknown: NDArray[np.int64]) -> Plan[Batch]:
        """One measuring step, with at most the rollouts of a training step."""
        per_step = max(1, self.batch * self.group // self.measure)
        part, steps = unknown[:per_step], math.ceil(len(unknown) / per_step)
        notices = []
        if not self.rounds:
            self.began = progress.fraction
            notices = [measuring_notice("pass rates", len(unknown), steps, 0)]
        elif self.rounds == 1:
            notices = cost_notice(steps + 1, progress.fraction - self.began)
        self.rounds += 1
        groups = yield from measure([pool.prompts[i] for i in part], self.measure)
        means = [math.nan if group.mean is None else group.mean for group in groups]
        self.known[part] = means
        self.place = int(part[-1]) + 1
        self.complete = not len(self._unknown())
        return Batch(
            [],
            metrics={
                "select/discarded": rollout_count(groups),
                "select/measured": float(np.count_nonzero(~np.isnan(self.known))),
            },
            notices=notices,
        )
