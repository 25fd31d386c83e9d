"""The base class of curricula that know the pass rate of every prompt, from a file or measured.

What no file says is measured before training, a bounded number of prompts per step. Such a step
returns an empty batch, so that a run can be resumed in between, and counts towards the budget.
"""

import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Plan, Progress, measure
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import rollout_count
from metis.errors import MetisError, require, require_at_least


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


KEY = "curriculum.rates"
RATES = ("measured_pass_rate", "expected_pass_rate")
"""Fields of `metis judge` with a pass rate, the better one first."""


def read_rates(path: str) -> dict[str, float]:
    """The mean reward of each prompt in a file, by id; prompts without one are left out."""
    place = Path(path).expanduser()
    rates: dict[str, float] = {}
    try:
        for row in _rows(place):
            name, rate = _rate(row)
            if rate is not None:
                if not 0 <= rate <= 1:
                    raise ValueError(f"prompt {name!r} has the pass rate {rate}")
                rates[name] = rate
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as error:
        raise MetisError(
            f"{KEY} = {path!r}: cannot be read ({type(error).__name__}: {error}); name the "
            "outcomes.jsonl of `metis survey`, what its --keep writes, or the ranking.jsonl of "
            "`metis judge`"
        ) from None
    if not rates:
        raise MetisError(f"{KEY} = {path!r}: it has no pass rate of any prompt")
    return rates


def _rows(place: Path) -> Iterator[Any]:
    """The rows of a file; an outcome set, which has a heading, is compressed."""
    packed = place.suffix == ".gz"
    with (
        gzip.open(place, "rt", encoding="utf-8") if packed else place.open(encoding="utf-8") as file
    ):
        for line in file:
            row = json.loads(line)
            if not (isinstance(row, dict) and "format" in row):
                yield row


def _rate(row: Any) -> tuple[str, float | None]:
    """The id and the mean reward of a row."""
    if isinstance(row, dict) and "id" in row:
        known = (row.get(name) for name in RATES)
        return str(row["id"]), next((float(rate) for rate in known if rate is not None), None)
    name, rewards = (row["prompt"], row["rewards"]) if isinstance(row, dict) else row[:2]
    return str(name), float(np.mean(rewards)) if rewards else None


def measuring_notice(noun: str, prompts: int, steps: int, spared: int) -> str:
    """The notice in the first measuring step; `spared` are the rollouts that were avoided."""
    text = f"measuring the {noun} of {prompts} prompts; steps without an update: {steps}"
    if spared:
        text += (
            f"; the data has no difficulties, which would take {spared} rollouts to measure "
            "(curriculum.categories=difficulty)"
        )
    return text


def cost_notice(steps: int, fraction: float) -> list[str]:
    """After the first of `steps` measuring steps: a notice if they take much of the budget.

    `fraction` is the share of the budget that the first one took.
    """
    total = steps * fraction
    if total < 0.5:
        return []
    text = f"measuring takes about {total:.0%} of the budget"
    if total >= 1:
        text += (
            ", so that there will be no training: raise the budget or the batch, or use fewer "
            "prompts"
        )
    return [text]
