"""Nemotron's schedule: pass rates around a target that moves from easy to hard, in every domain.

Idea       Measure every prompt's pass rate, leave out what always passes, and train on prompts
           whose pass rate is near a target that falls over training, in all domains at once.
Equation   mu = start + t (end - start), t from 0 to 1; in each domain, which has a fixed share of
           the batch, P(rate p) ~ exp(-(p - mu)^2 / (2 sigma^2)) over the pass rates < `below`.
Acts       before rollouts
Costs      `measure` rollouts a prompt, unless in `rates`; again with `profile_every`
Continuous p is the mean reward
Reference  NVIDIA, Nemotron 3 Nano, arXiv 2512.20848, Section 3.2.2; first in Llama-Nemotron, arXiv
           2505.00949, which leaves out p of 0.75 or more.
Deviations
1. start, end and sigma are not published: the first two are the span of the report's Figure 6, the
   width is a guess.
2. A new profile is made every `profile_every` steps, by measuring again, and the schedule then
   starts over, where the report profiles again with the best checkpoint once training stalls.
3. The target is a distribution over pass rates, as in Llama-Nemotron: a rate that many prompts have
   is not drawn more often. Rates are rounded to multiples of 1 / `measure`.
4. Each pass rate of a domain has its own epochs, so that a prompt can return. What the report does
   once a batch cannot follow the target is not published: here, the other rates share its slots.
5. A domain's share of the batch is that of its prompts, rounded at random to whole prompts.
6. A prompt that could not be measured has the mean pass rate of the others.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Decision, Plan, Progress, Prompt, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool, Subset
from metis.curricula.arms.partition import draw_arms
from metis.curricula.profiled import Profiled
from metis.errors import require, require_at_least

SLIGHT = 1e-12
"""The least probability of a pass rate, so that a domain always fills its slots."""


@dataclass
class Nemotron(Profiled):
    """Prompts whose measured pass rate is near a target, which falls over training.

    start, end     the mean of the target pass rates, at first and at last (0.7, 0.4)
    sigma          their standard deviation (0.15)
    below          prompts with this pass rate or more are left out; 1 is those that always pass
    profile_every  steps after which all pass rates are measured again; 0 is never
    """

    start: float = 0.7
    end: float = 0.4
    sigma: float = 0.15
    below: float = 1.0
    profile_every: int = 0

    profile: int = field(init=False, default=0)
    """Number of the present profile."""
    trained: int = field(init=False, default=0)
    """Steps since it was made."""
    opening: float = field(init=False, default=0.0)
    """Share of the budget spent when it was made."""
    stale: bool = field(init=False, default=True)
    """True until training starts with the present pass rates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, {"profile_every": 0}, "curriculum.")
        for name in ("start", "end"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"curriculum.{name}", value, "use a number from 0 to 1")
        require(self.sigma > 0, "curriculum.sigma", self.sigma, "use a number above 0")
        remedy = "use a number above 0, up to 1"
        require(0 < self.below <= 1, "curriculum.below", self.below, remedy)

    @property
    def needs(self) -> Needs:
        return replace(super().needs, in_turn=not self.complete or self.profile_every > 0)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if self.profile_every and self.trained >= self.profile_every:
            self.trained, self.stale = 0, True
            self.forget()
        if (unready := (yield from self.prepare(pool, progress))) is not None:
            return unready
        notices = []
        if self.stale:
            self.stale, self.opening = False, progress.fraction
            self.profile += 1
            notices = [self._introduce()]
        mean = self.mean(progress)
        self.trained += 1
        prompts = self._sample(pool, mean, progress)
        rates = self.filled()
        drawn = [float(rates[pool.positions[prompt.id]]) for prompt in prompts]
        metrics = {
            "select/target": mean,
            "select/profile": float(self.profile),
            "select/left_out": float(np.count_nonzero(rates >= self.below)),
            "select/discarded": 0.0,
        }
        if drawn:
            metrics["select/pass_rate"] = float(np.mean(drawn))
        groups = yield from rollout(prompts, self.group)
        decisions = [
            Decision(prompt, True, "drawn", rate)
            for prompt, rate in zip(prompts, drawn, strict=True)
        ]
        return Batch(groups, metrics=metrics, decisions=decisions, notices=notices)

    def mean(self, progress: Progress) -> float:
        """mu: the mean of the target pass rates now."""
        if self.profile_every:
            time = self.trained / self.profile_every
        else:
            left = 1 - self.opening
            time = (progress.fraction - self.opening) / left if left > 0 else 1.0
        return self.start + min(time, 1.0) * (self.end - self.start)

    def target(self, mean: float) -> NDArray[np.float64]:
        """The probability of each multiple of 1 / `measure`, if all have prompts."""
        rates = np.arange(self.measure + 1) / self.measure
        bell = np.exp(-np.square(rates - mean) / (2 * self.sigma**2)) + SLIGHT
        return np.asarray(bell / bell.sum(), dtype=np.float64)

    def _sample(self, pool: Pool, mean: float, progress: Progress) -> list[Prompt]:
        """The prompts of a batch, domain after domain, then shuffled."""
        rates, chances = self.filled(), self.target(mean)
        domains = {
            name: members[rates[members] < self.below] for name, members in pool.categories.items()
        }
        rng = progress.rng("draw")
        sizes = [len(members) for members in domains.values()]
        chosen: list[Prompt] = []
        for (name, members), slots in zip(
            domains.items(), shares(sizes, self.batch, rng.random()), strict=True
        ):
            level = np.rint(rates[members] * self.measure).astype(np.int64)
            parts = [members[level == k] for k in range(self.measure + 1)]
            drawn = draw_arms(chances, [len(part) for part in parts], slots, rng)
            for k in sorted(set(drawn)):
                subset = Subset(f"profile {self.profile}, {name}, {k}", parts[k])
                chosen += pool.sample(drawn.count(k), among=subset)
        progress.rng("order").shuffle(chosen)  # so that mini-batches mix domains
        return chosen

    def _introduce(self) -> str:
        """The notice that training starts with new pass rates."""
        rates = self.filled()
        out = int(np.count_nonzero(rates >= self.below))
        text = f"profile {self.profile}: mean pass rate {rates.mean():.2f}, {out} of {len(rates)} "
        text += f"prompts left out with {self.below:g} or more"
        return text if out < len(rates) else f"{text}: there is nothing to train on"


def shares(sizes: list[int], slots: int, offset: float) -> list[int]:
    """Slots in proportion to sizes, rounded to whole ones by one random offset in [0, 1)."""
    total = sum(sizes)
    if not total:
        return [0 for _ in sizes]
    ends = np.cumsum([0, *sizes]) * min(slots, total) / total
    return [int(n) for n in np.diff(np.floor(ends + offset))]
