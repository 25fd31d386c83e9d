"""The readout judge: a regression from the policy's hidden states to the outcomes.

The policy is neither asked nor trained to judge. Labels are the outcomes of the last steps, with
the hidden state from when the prompt was selected.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Embed, Group, Plan, Progress, Prompt, embed
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges.linear import Floats
from metis.curricula.judges.protocol import SECTION, Judge, Lesson, Prediction, Predictions
from metis.curricula.judges.regressions import (
    FOLDS,
    CrossValidation,
    Fitted,
    Kind,
    Outcomes,
    Regression,
    cross_validate,
    regression,
)
from metis.errors import require, require_at_least
from metis.signal import VARIANCE_MAX, judge_reward

States = Sequence[NDArray[np.float32]]


@dataclass(frozen=True)
class ReadoutPredictions(Predictions):
    """Predictions, with the hidden states to be labelled."""

    states: States = ()


class Reading(NamedTuple):
    """Expected reward variance and pass rate of a prompt; None where rewards are continuous."""

    variance: float
    pass_rate: float | None


@dataclass(frozen=True)
class FittedReadout:
    """The regression of all labels, and how well it predicted those held out."""

    fitted: Fitted
    held_out: CrossValidation

    def read(self, states: States) -> list[Reading | None]:
        """The reading of each state; None for non-finite ones."""
        known = [bool(np.isfinite(state).all()) for state in states]
        if not any(known):
            return [None] * len(states)
        features = np.stack(states)[known].astype(np.float64)
        variances = (self.held_out.ratio * self.fitted.variance(features)).tolist()
        rates = self.fitted.pass_rate(features)
        pairs = zip(variances, [None] * len(variances) if rates is None else rates, strict=True)
        readings = (Reading(v, None if rate is None else float(rate)) for v, rate in pairs)
        return [next(readings) if each else None for each in known]


@dataclass
class Readout(Stateful, Judge[ReadoutPredictions]):
    """A regression on the policy's hidden state predicts the variance.

    regression  `logistic`, of the pass rate; only for binary rewards · `ridge`, of the variance
    layer       the layer to read, as a fraction of the depth; 1 is the last (2/3)
    window      steps whose outcomes are the labels (20)
    """

    regression: Kind = "logistic"
    layer: float = 2 / 3
    window: int = 20

    labels: list[tuple[int, NDArray[np.float32], Floats]] = field(init=False, default_factory=list)
    """Per step: the hidden states of its prompts, and their outcomes."""

    trial: ClassVar[int] = 0
    """No trial: cross-validation shrinks useless predictions."""

    def __post_init__(self) -> None:
        require_at_least(self, {"window": 1}, SECTION)
        remedy = "use a share of the network, above 0 up to 1"
        require(0 < self.layer <= 1, f"{SECTION}layer", self.layer, remedy)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.labels = [(step, states, outcomes) for step, states, outcomes in self.labels]

    def needs(self, batch: int) -> Needs:
        return Needs(frozenset({Embed}), depths=(self.layer,))

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[ReadoutPredictions]:
        self.labels = [label for label in self.labels if label[0] >= progress.step - self.window]
        states = yield from embed(candidates, [self.layer])
        readings, metrics = self.read(states, regression(self.regression, pool.rewards))
        pairs = zip(candidates, readings, strict=True)
        predictions = [_prediction(prompt, reading) for prompt, reading in pairs]
        return ReadoutPredictions(predictions, metrics=metrics, states=states)

    def learn(
        self,
        predictions: ReadoutPredictions,
        groups: Sequence[Group],
        pool: Pool,
        progress: Progress,
    ) -> Lesson:
        read = zip(predictions.candidates, predictions.states, strict=True)
        known = {prediction.prompt.id: (prediction, state) for prediction, state in read}
        outcomes = [(*known[group.prompt.id], group) for group in groups]
        self.label([state for _, state, _ in outcomes], groups, progress.step)
        rewards = [
            judge_reward(prediction.v_hat, group.variance)
            for prediction, _, group in outcomes
            if prediction.v_hat is not None and group.variance is not None
        ]
        return Lesson(metrics={"judge/reward": float(np.mean(rewards))} if rewards else {})

    def label(self, states: States, groups: Sequence[Group], step: int) -> None:
        """Add the outcomes of a step as labels."""
        labelled = [
            (state, (group.variance, group.mean, len(group.rewards), _fold(group.prompt.id)))
            for state, group in zip(states, groups, strict=True)
            if group.variance is not None and np.isfinite(state).all()
        ]
        if labelled:
            features = np.stack([state for state, _ in labelled])
            rows = np.array([outcome for _, outcome in labelled], dtype=np.float64)
            self.labels.append((step, features, rows))

    def read(
        self, states: States, model: Regression
    ) -> tuple[list[Reading | None], dict[str, float]]:
        """The reading of each state, and metrics of the regression.

        None before there are labels, and for non-finite states.
        """
        metrics = {"select/labels": float(sum(len(rows) for _, _, rows in self.labels))}
        readout = self.fit(model)
        if readout is None:
            return [None] * len(states), metrics
        metrics["select/penalty"] = readout.held_out.penalty
        if readout.held_out.pearson is not None:
            metrics["select/held_out_pearson"] = readout.held_out.pearson
        return readout.read(states), metrics

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of all labels."""
        return Outcomes.of(np.concatenate([rows for _, _, rows in self.labels]))

    def fit(self, model: Regression) -> FittedReadout | None:
        """Fit the regression to all labels; None with fewer than two."""
        if sum(len(rows) for _, _, rows in self.labels) < 2:
            return None
        features = np.concatenate([features for _, features, _ in self.labels]).astype(np.float64)
        held_out = cross_validate(model, features, self.outcomes)
        (fitted,) = model.fit(features, self.outcomes, [held_out.penalty])
        return FittedReadout(fitted, held_out)


def _prediction(prompt: Prompt, reading: Reading | None) -> Prediction:
    if reading is None:
        return Prediction(prompt, None, None)
    v_hat = min(max(0.0, reading.variance), VARIANCE_MAX)
    return Prediction(prompt, v_hat, reading.variance, pass_rate=reading.pass_rate)


def _fold(prompt: str) -> int:
    return zlib.crc32(prompt.encode()) % FOLDS
