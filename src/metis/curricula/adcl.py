"""ADCL: from easy to hard in chunks; each chunk is measured again before training on it.

Idea       What is hard changes as the policy learns, so a fixed order from easy to hard goes stale:
           measure all prompts once, and every chunk again just before it is trained on.
Equation   d(x) = 1 - mean_j r_j over s rollouts; sort by d, cut into K chunks C_1 .. C_K; after
           C_k measure and sort C_(k+1) with the current policy. Membership never changes.
Acts       before rollouts
Costs      s rollouts a prompt before training, again each epoch
Continuous d(x) = variance, as METIS extends it: low variance is easy
Reference  Zhang et al., Learning Like Humans (adaptive difficulty curriculum learning), arXiv
           2505.08364; as a baseline of METIS, arXiv 2605.11235, appendix.
Deviations
1. Curriculum only, without expert-guided reformulation of answers: METIS compares with this.
2. K = 8 and s = 4 are METIS's; the values of the original could not be found.
3. After C_K a new epoch starts at C_1, measured again like every chunk: the paper does not describe
   what follows the first epoch.
4. Measuring takes steps of its own, with an empty batch and no more rollouts than a training step,
   so that a run can be stopped and resumed inside it.
5. Ties in difficulty are broken at random: s rollouts distinguish only s + 1 pass rates.
6. A prompt that could not be measured (no rollout with a reward, or fewer than two for a variance)
   is sorted last.
7. The last batch of a chunk may be short, because the next chunk has not been measured yet.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from metis.core import Batch, Decision, Group, Plan, Progress, measure, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import rollout_count
from metis.curricula.profiled import cost_notice
from metis.errors import require_at_least
from metis.signal import top_b


@dataclass
class Adcl(Stateful):
    """From easy to hard in chunks, each measured again before training on it.

    batch, group  B prompts a step, n rollouts each
    chunks        K: parts of the training set, trained on one after the other (8)
    measure       s: rollouts that measure a prompt's difficulty (4)
    difficulty    `one_minus_mean`, `variance`, or `auto`: variance if rewards are continuous
    """

    presets: ClassVar = {
        "published": {},
        "paper": {"chunks": 8, "measure": 4, "difficulty": "auto"},
    }
    """`paper` is ADCL as METIS compares with it (App. A.6)."""
    needs: ClassVar = Needs(in_turn=True)

    batch: int = 256
    group: int = 8
    chunks: int = 8
    measure: int = 4
    difficulty: Literal["auto", "one_minus_mean", "variance"] = "auto"

    order: list[int] = field(init=False, default_factory=list)
    """Positions of the prompts, chunk after chunk."""
    measured: list[float | None] = field(init=False, default_factory=list)
    """The last measured d of each prompt."""
    chunk: int | None = field(init=False, default=None)
    """None during the first measurement of all prompts."""
    measuring: bool = field(init=False, default=True)
    cursor: int = field(init=False, default=0)
    """Next index into `order`."""
    epoch: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"chunks": 1, "measure": 2}, "curriculum.")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if not len(pool):
            return Batch([])
        notices = []
        steps = math.ceil(len(pool) / self._measured_a_step)
        if not self.order:
            self.order, self.measured = list(range(len(pool))), [None] * len(pool)
            notices.append(f"{steps} steps measure {len(pool):,} prompts before training begins")
        elif self.chunk is None and self.cursor == self._measured_a_step:
            notices += cost_notice(steps, progress.fraction)
        begin, end = self._span()
        plan = self._measure(pool, begin, end) if self.measuring else self._train(pool, end)
        batch = yield from plan
        if self.cursor == end:
            notices += self._turn(begin, end, progress.rng("ties"))
        return replace(batch, notices=notices)

    def _measure(self, pool: Pool, begin: int, end: int) -> Plan[Batch]:
        """Roll out only to measure difficulty: these rollouts are not trained on."""
        positions = self._next(self._measured_a_step, end)
        groups = yield from measure([pool.prompts[i] for i in positions], self.measure)
        for i, group in zip(positions, groups, strict=True):
            self.measured[i] = self._difficulty(group, pool)
        metrics = self._place() | {"select/discarded": rollout_count(groups)}
        metrics["select/measured"] = float(self.cursor - begin)
        return Batch([], metrics=metrics, decisions=self._decisions(pool, positions, False))

    def _train(self, pool: Pool, end: int) -> Plan[Batch]:
        positions = self._next(self.batch, end)
        groups = yield from rollout([pool.prompts[i] for i in positions], self.group)
        metrics = self._place() | {"select/discarded": 0.0}
        return Batch(groups, metrics=metrics, decisions=self._decisions(pool, positions, True))

    def _next(self, count: int, end: int) -> list[int]:
        begin, self.cursor = self.cursor, min(self.cursor + count, end)
        return self.order[begin : self.cursor]

    @property
    def _measured_a_step(self) -> int:
        """Prompts measured per step, with the rollouts of a training step."""
        return max(1, self.batch * self.group // self.measure)

    def _span(self) -> tuple[int, int]:
        """The range of `order` that is being measured or trained on."""
        if self.chunk is None:
            return 0, len(self.order)
        total, chunks = len(self.order), self._chunks
        return total * self.chunk // chunks, total * (self.chunk + 1) // chunks

    @property
    def _chunks(self) -> int:
        """K, at most the number of prompts."""
        return min(self.chunks, len(self.order))

    def _difficulty(self, group: Group, pool: Pool) -> float | None:
        automatic = "variance" if pool.rewards == "continuous" else "one_minus_mean"
        if (automatic if self.difficulty == "auto" else self.difficulty) == "variance":
            return group.variance
        return None if group.mean is None else 1.0 - group.mean

    def _turn(self, begin: int, end: int, ties: random.Random) -> list[str]:
        """Switch from measuring a chunk to training on it, or to measuring the next one."""
        notices = []
        if self.measuring:
            part = self.order[begin:end]
            ease = [None if (d := self.measured[i]) is None else -d for i in part]
            self.order[begin:end] = [part[i] for i in top_b(ease, len(part), ties)]
            self.chunk = self.chunk or 0
            place = f"chunk {self.chunk + 1} of {self._chunks}, epoch {self.epoch + 1}"
            notices = [f"{place}: measured, training on it from here"]
        elif self.chunk is not None:
            self.epoch += self.chunk + 1 == self._chunks
            self.chunk = (self.chunk + 1) % self._chunks
        self.measuring = not self.measuring
        self.cursor, _ = self._span()
        return notices

    def _place(self) -> dict[str, float]:
        """Epoch and chunk, from 1; chunk 0 is the first measurement of all prompts."""
        chunk = 0 if self.chunk is None else self.chunk + 1
        return {"select/epoch": float(self.epoch + 1), "select/chunk": float(chunk)}

    def _decisions(self, pool: Pool, positions: Sequence[int], chosen: bool) -> list[Decision]:
        reason = "next" if chosen else "measured"
        return [Decision(pool.prompts[i], chosen, reason, self.measured[i]) for i in positions]
