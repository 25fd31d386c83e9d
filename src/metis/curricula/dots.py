"""DOTS: attention to a few measured prompts predicts difficulty; recent rollouts are replayed.

Idea       Every mu steps some references are rolled out; a predictor attends from a candidate to
           them and predicts its pass rate. Those near 1/2 are sampled; half is replayed.
Equation   d(x) = sum of softmax_j(<f(x), g(x_j)> / sqrt(h)) d_j, calibrated; P(x) proportional to
           exp(-|d(x) - 1/2| / tau), without replacement.
Acts       before rollouts
Costs      B/2 prompts rolled out every 2nd step; about (m + 4) B/2 forward passes
Continuous d is 4 v, and the target is 1
Reference  Sun et al., Improving Data Efficiency for LLM Reinforcement Fine-tuning Through
           Difficulty-targeted Online Data Selection and Rollout Replay, arXiv 2506.05316.
Deviations
1. There are no earlier runs to train the predictor on. It is trained online, on the references that
   are about to be replaced, so that the new ones, unseen, calibrate it without bias.
2. It reads the policy's hidden state of the prompt, not an embedding of a second, frozen model. So
   m candidates per slot are read rather than all prompts, and they are predicted and sampled in
   every step rather than every mu steps. References are the next prompts of the epoch, like
   candidates, not sampled separately: what was just measured is no candidate.
3. Calibration regresses measured on predicted values over two halves of the references, each
   predicted from the other half. Using all would leak a prompt's own value; leave-one-out would
   bias against it. The slope is at least 0: without skill, or with fewer than three references, all
   predictions are equal and sampling is uniform; with few, the slope is noisy. Predictions are
   clipped to [0, 1].
4. Sampling is by the Gumbel top-k trick, the same distribution; exp(-|d - 1/2| / 0.001) underflows.
5. The importance ratio is to the policy that sampled the rollout, clipped around 1, not around its
   value before the update.
6. If the buffer has too few informative groups, fresh rollouts fill the batch.
7. stale: a group with a rollout more than `stale` updates old is not replayed, and is counted.
8. Continuous rewards: a mean of 1/2 says nothing about the variance, so that is predicted instead.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from metis.core import (
    Batch,
    Decision,
    Evidence,
    Group,
    Plan,
    Progress,
    Prompt,
    fit,
    measure,
    predict,
    rollout,
)
from metis.core.needs import Needs
from metis.core.pool import Pool, Rewards
from metis.core.predictors import AttentionModel
from metis.core.state import Stateful
from metis.curricula.filtering import prompts, rollout_count, too_old
from metis.curricula.selection import top_decisions
from metis.errors import require, require_at_least
from metis.signal import VARIANCE_MAX, top_b


@dataclass
class Dots(Stateful):
    """Attention to a few measured prompts predicts difficulty; recent rollouts are replayed.

    batch, group  B prompts a step, n rollouts each (the authors' B is 512)
    multiplier    m: candidates per fresh prompt
    references    reference prompts, rolled out but not trained on, as a multiple of B (0.5)
    every         mu: steps between their measurements (2)
    fresh         share of the batch that is rolled out; the rest is replayed (0.5)
    buffer        replay buffer: latest groups, as a multiple of B (1: two steps)
    stale         groups with a rollout more than this many updates old are not replayed
    target        the target pass rate (0.5)
    temperature   tau of the sampling (0.001)
    predictor     width, layers, dropout, learning_rate, minibatch and epochs of the predictor
    """

    batch: int = 256
    group: int = 8
    multiplier: int = 8
    references: float = 0.5
    every: int = 2
    fresh: float = 0.5
    buffer: float = 1.0
    stale: int = 8
    target: float = 0.5
    temperature: float = 1e-3
    predictor: AttentionModel = field(default_factory=AttentionModel)

    measured: list[tuple[str, float]] = field(init=False, default_factory=list)
    """Reference prompts and their outcomes."""
    groups: list[Group] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1, "every": 1, "stale": 0}, "curriculum.")
        require(0 < self.fresh <= 1, "curriculum.fresh", self.fresh, "use a share above 0")
        require(0 <= self.target <= 1, "curriculum.target", self.target, "use a number, 0 to 1")
        for name in ("references", "buffer", "temperature"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"curriculum.{name}", value, "use a number above 0")

    @property
    def needs(self) -> Needs:
        replayed = "rollouts of earlier steps, to replay (curriculum.fresh=1 replays none)"
        return Needs(model=self.predictor, held=replayed if self.fresh < 1 else "")

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        metrics = {"select/discarded": 0.0}
        if progress.step % self.every == 0:
            metrics |= yield from self._measure(pool)
        stale = [group for group in self.groups if too_old(group, progress.policy, self.stale)]
        self.groups = [group for group in self.groups if group not in stale]
        replayed = self._replay(pool, progress)
        slots = self.batch - len(replayed)
        candidates = pool.sample(self.multiplier * slots, exclude=prompts(replayed))
        predictions, slope = yield from self._predict(candidates, self._evidence(pool))
        aim = 1.0 if pool.rewards == "continuous" else self.target
        gaps = [0.0 if d is None else abs(d - aim) for d in predictions]
        chosen = set(gumbel_top_k(gaps, slots, self.temperature, progress.rng("draw")))
        fresh = yield from rollout([candidates[i] for i in sorted(chosen)], self.group)
        self.groups = [*self.groups, *fresh][-self._times_batch(self.buffer) :]
        metrics |= {
            "select/candidates": float(len(candidates)),
            "select/replayed": float(len(replayed)),
            "select/stale": float(len(stale)),
            "select/slope": slope,
        }
        decisions = top_decisions(candidates, chosen, predictions, "drawn")
        decisions += [Decision(prompt, True, "replayed") for prompt in prompts(replayed)]
        groups = fresh + replayed
        progress.rng("order").shuffle(groups)  # so that mini-batches mix fresh and replayed
        return Batch(groups, metrics=metrics, decisions=decisions)

    def _times_batch(self, multiple: float) -> int:
        return max(1, round(multiple * self.batch))

    def _measure(self, pool: Pool) -> Plan[dict[str, float]]:
        """Train the predictor on the old references, and measure new ones."""
        evidence = self._evidence(pool)
        references, values = [prompt for prompt, _ in evidence], [value for _, value in evidence]
        error = yield from fit(references, values, self.predictor, evidence)
        groups = yield from measure(pool.sample(self._times_batch(self.references)), self.group)
        outcomes = [(group.prompt.id, outcome(group, pool.rewards)) for group in groups]
        self.measured = [(prompt, d) for prompt, d in outcomes if d is not None]
        costs = {"select/references": float(len(groups)), "select/discarded": rollout_count(groups)}
        return costs | ({"select/predictor_loss": error} if evidence else {})

    def _evidence(self, pool: Pool) -> Evidence:
        return [(pool[prompt], value) for prompt, value in self.measured]

    def _replay(self, pool: Pool, progress: Progress) -> list[Group]:
        """Sample informative groups of the buffer, one per prompt; none in the first steps."""
        slots = self._times_batch(self.fresh)
        room = min(self.batch, len(pool)) - slots if progress.step >= self.every else 0
        latest = {group.prompt.id: group for group in self.groups}
        usable = [group for group in latest.values() if group.informative]
        return progress.rng("replay").sample(usable, max(0, min(room, len(usable))))

    def _predict(
        self, candidates: Sequence[Prompt], evidence: Evidence
    ) -> Plan[tuple[list[float | None], float]]:
        """The calibrated d of each candidate, and the slope of the calibration."""
        if not evidence or not candidates:
            return [None] * len(candidates), 0.0
        halves, lines = (evidence[::2], evidence[1::2]), []
        for half, other in (halves, halves[::-1]):
            predictions = yield from predict([prompt for prompt, _ in half], self.predictor, other)
            lines.append((np.array(predictions), np.array([value for _, value in half])))
        slope, intercept = fit_line(lines)
        raw = yield from predict(candidates, self.predictor, evidence)
        return np.clip(intercept + slope * np.array(raw), 0.0, 1.0).tolist(), slope


def outcome(group: Group, rewards: Rewards) -> float | None:
    """The predictor's target for a prompt, in [0, 1]."""
    if rewards == "binary":
        return group.mean
    return None if group.variance is None else group.variance / VARIANCE_MAX


def fit_line(parts: Sequence[tuple[NDArray[np.float64], ...]]) -> tuple[float, float]:
    """Least squares with one slope for all parts; returns slope (at least 0) and intercept."""
    x, y = (np.concatenate(values) for values in zip(*parts, strict=True))
    centred = [(x - x.mean(), y - y.mean()) for x, y in parts if len(x)]
    spread = float(sum(x @ x for x, _ in centred))
    slope = max(0.0, float(sum(x @ y for x, y in centred)) / spread) if spread > 1e-12 else 0.0
    return slope, float(y.mean() - slope * x.mean())


def gumbel_top_k(
    gaps: Sequence[float], count: int, temperature: float, rng: random.Random
) -> list[int]:
    """Sample positions without replacement, with P proportional to exp(-gap / tau).

    By the Gumbel top-k trick: the highest logits plus Gumbel noise.
    """
    noise = [-math.log(max(rng.expovariate(1.0), 1e-300)) for _ in gaps]
    keys = [-gap / temperature + extra for gap, extra in zip(gaps, noise, strict=True)]
    return top_b(keys, count, None)
