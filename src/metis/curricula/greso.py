"""GRESO: skip prompts that were all-pass or all-fail the last times; filter the rest.

Idea       A prompt whose group was all-pass or all-fail will most likely be so again. The longer
           the run of such groups, the likelier it is skipped, but never for sure: it may change.
Equation   keep x with max(p_type^z, floor), z = its last groups in a row without variance of the
           same type; after a step p_type -= 0.01 if such groups reach their target share, else
           += 0.01; then dynamic sampling, as in `dapo`.
Acts       before and after
Costs      rollouts of all-pass and all-fail groups that were not skipped
Continuous a third type of group without variance: constant partial credit
Reference  Zheng et al., GRESO, arXiv 2506.02177; defaults of its released code.

Deviations
1. A group has no variance if v <= delta, in the filter and in the trace; then its mean gives its
   type: `easy` is all-pass, `hard` all-fail. The code filters by max = min, but traces by the mean
   and counts types by equality with 1 and 0.1: with rewards of 0 and 1 no group is ever counted as
   hard, and p_hard runs to its bound.
2. Constant partial credit, between `hard` and `easy`, is its own type with the target of easy. The
   p of a type starts with its first group.
3. z counts visits of a prompt; the controller starts in the second epoch.
4. A group with too few rewards for a variance does not change its prompt's trace.
5. If no group so far was informative, there is no estimate for the next round: it has the maximum
   size, and `rounds` limits their number. Rounds are not rounded to the number of GPUs.
6. That estimate uses all rounds of the step, where the code uses the last one, which can be small.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from metis.core import Batch, Decision, Group, Plan, Progress, Prompt, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import FULL, decided, prompts, rollout_count, shortage
from metis.errors import require, require_at_least
from metis.signal import INFORMATIVE

TARGETS = {"easy": 1 / 3, "hard": 2 / 3, "partial": 1 / 3}
"""The share of `target` of each type of group without variance."""


@dataclass
class Greso(Stateful):
    """Skips a prompt more often, the more of its last groups in a row had no variance.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B prompts are rolled out in the first round, and at most in any (1.5)
    least         the smallest round, as a multiple of B (0.25)
    margin        a round has this many times the prompts expected to fill the batch (1.25)
    rounds        maximum rounds in a step
    start         initial p_type (0.5)
    pace          change of p_type in a step (0.01)
    bounds        of p_type (0.05 and 0.95)
    floor         minimum probability to keep a prompt (0.01)
    target        target share of groups without variance: a third easy, two thirds hard (0.25)
    easy          minimum mean reward of an easy (all-pass) group (0.98)
    hard          maximum mean reward of a hard (all-fail) group (0.11)
    delta         a group has no variance unless it is above this
    """

    needs: ClassVar = Needs(data="prompts that come round again")

    batch: int = 256
    group: int = 8
    multiplier: float = 1.5
    least: float = 0.25
    margin: float = 1.25
    rounds: int = 10
    start: float = 0.5
    pace: float = 0.01
    bounds: tuple[float, float] = (0.05, 0.95)
    floor: float = 0.01
    target: float = 0.25
    easy: float = 0.98
    hard: float = 0.11
    delta: float = INFORMATIVE

    runs: dict[str, tuple[str, int]] = field(init=False, default_factory=dict)
    """Type and length of a prompt's present run of groups without variance."""
    chances: dict[str, float] = field(init=False, default_factory=dict)
    """p of each type so far."""
    missing: int = field(init=False, default=FULL)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"rounds": 1, "delta": 0}, "curriculum.")
        for name in ("multiplier", "least", "margin"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"curriculum.{name}", value, "use a number above 0")
        for name in ("start", "pace", "floor", "target", "easy", "hard"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"curriculum.{name}", value, "use a number from 0 to 1")
        low, high = self.bounds
        remedy = "use two numbers from 0 to 1, the lower one first"
        require(0 <= low <= high <= 1, "curriculum.bounds", self.bounds, remedy)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        groups: list[Group] = []
        kept: list[Group] = []
        skipped: list[Prompt] = []
        rng = progress.rng("skip")
        rounds, left = 0, self.rounds
        while len(kept) < self.batch and left > 0:
            size, enough = self._next_round(len(kept), len(groups))
            passed, more = self._collect(pool, size, [*prompts(groups), *skipped], rng)
            skipped += more
            if not passed:
                break
            groups += yield from rollout(passed, self.group)
            kept = [group for group in groups if self.keeps(group)]
            rounds, left = rounds + 1, 0 if enough else left - 1
        types = Counter(self._observe(group) for group in groups)
        if groups and pool.epoch > 0:
            self._control({kind: types[kind] / len(groups) for kind in self.chances})
        return self._batch(groups, kept, skipped, rounds)

    def keeps(self, group: Group) -> bool:
        """True where the group is trained on, as far as it alone says."""
        return group.teaches(self.delta)

    def keep(self, prompt: Prompt) -> float:
        """The probability to roll out a prompt: max(p_type^z, floor), 1 if z = 0."""
        if prompt.id not in self.runs:
            return 1.0
        kind, run = self.runs[prompt.id]
        return max(self.chances[kind] ** run, self.floor)

    def _next_round(self, kept: int, rolled_out: int) -> tuple[int, bool]:
        """The size of the next round, and True if it should fill the batch."""
        most, least = self.multiplier * self.batch, self.least * self.batch
        if not kept:
            return max(1, int(most)), False
        wanted = self.margin * (self.batch - kept) * rolled_out / kept
        return max(1, int(max(least, min(most, wanted)))), wanted <= most

    def _collect(
        self, pool: Pool, size: int, seen: list[Prompt], rng: random.Random
    ) -> tuple[list[Prompt], list[Prompt]]:
        """Sample until enough prompts are kept; returns these, and the skipped ones."""
        passed: list[Prompt] = []
        skipped: list[Prompt] = []
        while len(passed) < size:
            drawn = pool.sample(size - len(passed), exclude=[*seen, *passed, *skipped])
            if not drawn:
                break
            for prompt in drawn:
                (passed if rng.random() < self.keep(prompt) else skipped).append(prompt)
        return passed, skipped

    def _observe(self, group: Group) -> str | None:
        """Update a prompt's trace with its group; returns the type if it has no variance."""
        if group.variance is None or group.mean is None:
            return None
        before, run = self.runs.pop(group.prompt.id, (None, 0))
        if group.variance > self.delta:
            return None
        kind = "easy" if group.mean >= self.easy else "hard"
        if self.hard < group.mean < self.easy:
            kind = "partial"
        self.runs[group.prompt.id] = (kind, run + 1 if kind == before else 1)
        self.chances.setdefault(kind, self.start)
        return kind

    def _control(self, measured: dict[str, float]) -> None:
        """Skip more of a type above its target share, less of one below."""
        low, high = self.bounds
        for kind, share in measured.items():
            move = -self.pace if share >= self.target * TARGETS[kind] else self.pace
            self.chances[kind] = min(max(self.chances[kind] + move, low), high)

    def _batch(
        self, groups: list[Group], kept: list[Group], skipped: list[Prompt], rounds: int
    ) -> Batch:
        trained, surplus = kept[: self.batch], kept[self.batch :]
        dead = [group for group in groups if not group.teaches(self.delta)]
        why = f"{len(dead)} of {len(groups)} groups had no variance in {rounds} rounds"
        self.missing, notices = shortage(len(trained), self.batch, self.missing, why, enough=0.5)
        return Batch(
            trained,
            metrics={
                "select/candidates": float(len(groups) + len(skipped)),
                "select/skipped": float(len(skipped)),
                "select/rounds": float(rounds),
                "select/dead": float(len(dead)),
                "select/discarded": rollout_count(dead + surplus),
                **{f"select/keep_{kind}": chance for kind, chance in self.chances.items()},
            },
            decisions=decided(trained, True, "kept")
            + decided(surplus, False, "surplus")
            + decided(dead, False, "dead")
            + [Decision(prompt, False, "skipped") for prompt in skipped],
            notices=notices,
        )
