"""The experience of a judge: outcomes to show, to train on again, and to be measured by."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metis.core import Group, Judgment, Progress
from metis.core.pool import Pool, Rewards
from metis.core.state import Stateful
from metis.curricula.judge.judgment import Scored, Verdict
from metis.curricula.judge.losses import learn
from metis.curricula.judge.memory import Pair, pairs, recent, remembered, replayed
from metis.curricula.judge.offsets import Labelled, labelled, moved
from metis.curricula.judge.settings import Judge
from metis.curricula.judge.skill import FLAT, Outcome, noted, outcome_metrics, verdict_metrics
from metis.curricula.judge.target import Target
from metis.curricula.judge.trial import Comparison, Lift, compared, realised_lift
from metis.curricula.readout import Readout

KEPT_STEPS = 8
"""Steps whose outcomes are replayed, and set the offsets."""


@dataclass
class Experience(Stateful):
    """The state of a judge beside the policy's weights."""

    baseline: float | None = field(init=False, default=None)
    """b of Eq. 9."""
    pairs: list[Pair] = field(init=False, default_factory=list)
    labels: list[Labelled] = field(init=False, default_factory=list)
    offsets: list[float] = field(init=False, default_factory=list)
    outcomes: list[Outcome] = field(init=False, default_factory=list)
    comparisons: list[Comparison] = field(init=False, default_factory=list)
    readout: Readout = field(init=False, default_factory=Readout)
    flat: int = field(init=False, default=0)
    """Steps in a row whose predictions were all alike."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.pairs = [Pair(*pair) for pair in self.pairs]
        self.outcomes = [Outcome(*outcome) for outcome in self.outcomes]
        self.comparisons = [Comparison(*each) for each in self.comparisons]
        self.labels = [(step, logprobs, targets) for step, logprobs, targets in self.labels]

    def forget(self, step: int, memory: int, trial: int, window: int) -> None:
        """Drop what is too old to be of use in a step."""
        self.readout.forget(step, window)
        self.pairs = remembered(self.pairs, step, max(memory, KEPT_STEPS))
        self.labels = [label for label in self.labels if label[0] > step - KEPT_STEPS]
        self.comparisons = [each for each in self.comparisons if each.step >= step - trial]

    def memory(self, step: int, window: int, anchor: bool) -> list[Pair]:
        """The calibration memory before a step; with an anchor, see `remembered`."""
        return (remembered if anchor else recent)(self.pairs, step, window)

    def again(
        self, count: int, texts: Collection[str], pool: Pool, progress: Progress
    ) -> list[Pair]:
        """Outcomes of the last steps to judge again, of none of these texts."""
        earlier = recent(self.pairs, progress.step, KEPT_STEPS)
        avoid = {pair.prompt for pair in earlier if pool[pair.prompt].text in texts}
        return replayed(earlier, count, avoid, progress.rng("replay"))

    def target(self, judge: Judge, rewards: Rewards, step: int, window: int) -> Target:
        """The target of judgments, from the outcomes so far."""
        return Target.of(judge, rewards, recent(self.pairs, step, window))

    @property
    def lift(self) -> Lift | None:
        return realised_lift(self.comparisons)

    def add(self, groups: Sequence[Group], explored: set[str], step: int) -> list[Pair]:
        """Algorithm 1, line 7, the memory: the outcomes of a step."""
        new = pairs(groups, step, explored)
        chosen = [pair.v for pair in new if not pair.explored]
        self.comparisons += compared(step, chosen, [pair.v for pair in new if pair.explored])
        self.pairs += new
        return new

    def learn(
        self, judge: Judge, scored: Sequence[Scored], step: int, failures: str, ema: float
    ) -> tuple[list[Judgment], dict[str, float]]:
        """Algorithm 1, line 7: the judge's rows for this update; then baseline and offsets."""
        judgments, metrics = learn(judge, scored, self.baseline, failures)
        if (used := metrics.get("judge/baseline")) is not None:
            self.baseline = ema * used + (1 - ema) * metrics["judge/reward"]
        fresh = [item for item in scored if not item.key]
        if judge.offsets:
            self.labels += labelled(fresh, step)
            self.offsets = moved(self.offsets, self.labels)
        return judgments, metrics

    def diagnose(
        self,
        verdicts: Sequence[Verdict],
        scored: Sequence[Scored],
        groups: Sequence[Group],
        explored: set[str],
        step: int,
        share: float,
    ) -> dict[str, float]:
        """Metrics of the judge after a step in which it chose this share of the candidates."""
        self.outcomes = noted(self.outcomes, scored, verdicts, step)
        metrics = verdict_metrics(verdicts) | outcome_metrics(self.outcomes, share)
        flat = metrics.get("judge/spread", FLAT) < FLAT
        self.flat = self.flat + 1 if flat else 0
        if (lift := self.lift) is not None:
            metrics |= {"judge/realised_lift": lift.mean, "judge/realised_lift_z": lift.z}
        rewards = [group.mean for group in groups if group.prompt.id not in explored]
        if means := [reward for reward in rewards if reward is not None]:
            metrics["select/chosen_reward"] = float(np.mean(means))
        return metrics
