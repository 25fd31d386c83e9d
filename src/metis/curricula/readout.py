"""A linear readout of the policy's states: a regression to what such prompts were worth.

Labels are of the last steps, each with the state that was read when its prompt was chosen. What a
prompt is worth is its v (1 - mean reward)^harder. `ridge` regresses that itself; `logistic`
regresses the pass rate p, and takes the expected p (1 - p) under its posterior. Linear in a
difficulty, that falls again towards what is nearly solved, where ridge regression goes on rising;
and where all labels fail, it is highest for what is least like them. Of six penalties, the one is
taken that predicts every fifth label best from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from metis.core import Group
from metis.core.pool import Rewards
from metis.core.state import Stateful
from metis.curricula.judge.diagnostics import pearson
from metis.curricula.regression import (
    Floats,
    Line,
    LogOdds,
    binomial_loss,
    logistic,
    ridge,
    sigmoid,
)
from metis.errors import require

States = Sequence[NDArray[np.float32]]
Kind = Literal["ridge", "logistic"]

NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
NODE_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
"""Gauss-Hermite quadrature under the standard normal distribution."""


class Outcomes(NamedTuple):
    """Outcomes of prompts, an entry each."""

    variances: Floats
    means: Floats
    rollouts: Floats

    @classmethod
    def of(cls, rows: Floats) -> "Outcomes":
        return cls(*rows.T)

    def take(self, places: NDArray[np.bool_]) -> "Outcomes":
        return Outcomes(*(column[places] for column in self))

    @property
    def passes(self) -> Floats:
        return self.means * self.rollouts

    def worth(self, harder: float) -> Floats:
        return self.variances * (1.0 - self.means) ** harder


class Fitted(Protocol):
    """A fitted regression."""

    def worth(self, features: Floats) -> Floats: ...

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        """The loss on other labels, which decides between penalties."""
        ...


@dataclass(frozen=True)
class Ridge:
    """Ridge regression of the worth; `harder` is the weight on the harder side."""

    harder: float = 0.0
    penalties: ClassVar = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
    overdispersed: ClassVar = False

    def fit(
        self, features: Floats, outcomes: Outcomes, penalties: Sequence[float]
    ) -> Sequence[Fitted]:
        lines = ridge(features, outcomes.worth(self.harder), penalties)
        return [FittedWorth(line, self.harder) for line in lines]


class FittedWorth(NamedTuple):
    """A fitted ridge regression."""

    line: Line
    harder: float

    def worth(self, features: Floats) -> Floats:
        return self.line.predict(features)

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        return float(np.mean(np.square(self.worth(features) - outcomes.worth(self.harder))))


@dataclass(frozen=True)
class Logistic:
    """Logistic regression of the pass rate p.

    Pass rates of prompts that it cannot tell apart differ, so that their mean variance is lower
    than that of their mean: held-out labels say by how much.
    """

    harder: float = 0.0
    penalties: ClassVar = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
    overdispersed: ClassVar = True

    def fit(
        self, features: Floats, outcomes: Outcomes, penalties: Sequence[float]
    ) -> Sequence[Fitted]:
        fitted = logistic(features, outcomes.passes, outcomes.rollouts, penalties)
        return [FittedRate(log_odds, self.harder) for log_odds in fitted]


class FittedRate(NamedTuple):
    """A fitted logistic regression; the worth is the expected p (1 - p)^(1 + harder)."""

    log_odds: LogOdds
    harder: float

    def worth(self, features: Floats) -> Floats:
        mean, spread = self.log_odds.predict(features), self.log_odds.spread(features)
        points = mean[:, None] + spread[:, None] * NODES
        values = sigmoid(points) * sigmoid(-points) ** (1.0 + self.harder)
        return np.asarray(values @ NODE_WEIGHTS)

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        mean = self.log_odds.predict(features)
        return binomial_loss(mean, outcomes.passes, outcomes.rollouts)


Regression = Ridge | Logistic


def regression(kind: Kind, rewards: Rewards, harder: float = 0.0) -> Regression:
    """The regression asked for; of rewards that are no passes, ridge regression."""
    return Logistic(harder) if (kind, rewards) == ("logistic", "binary") else Ridge(harder)


@dataclass
class Readout(Stateful):
    """Labels with their states, and the regression on them."""

    labels: list[tuple[int, NDArray[np.float32], Floats]] = field(init=False, default_factory=list)
    """A step, the states of its prompts, and their outcomes, a row each."""

    def forget(self, step: int, window: int) -> None:
        """Drop the labels of more than `window` steps ago."""
        self.labels = [label for label in self.labels if label[0] >= step - window]

    def learn(self, states: States, groups: Sequence[Group], step: int) -> None:
        """Take up the outcomes of a step, where there is one."""
        labelled = [
            (state, (group.variance, group.mean, len(group.rewards)))
            for state, group in zip(states, groups, strict=True)
            if group.variance is not None
        ]
        if labelled:
            features = np.stack([state for state, _ in labelled])
            rows = np.array([outcome for _, outcome in labelled], dtype=np.float64)
            self.labels.append((step, features, rows))

    def predict(
        self, states: States, model: Regression
    ) -> tuple[list[float | None], dict[str, float]]:
        """The worth of each state, None before there are labels; and metrics of the regression."""
        count = sum(len(rows) for _, _, rows in self.labels)
        metrics = {"select/labels": float(count)}
        if count < 2 or not states:
            return [None] * len(states), metrics
        features = np.concatenate([features for _, features, _ in self.labels]).astype(np.float64)
        outcomes = Outcomes.of(np.concatenate([rows for _, _, rows in self.labels]))
        held = held_out(model, features, outcomes)
        metrics["select/penalty"] = held.penalty
        if held.pearson is not None:
            metrics["select/held_out_pearson"] = held.pearson
        (fitted,) = model.fit(features, outcomes, [held.penalty])
        worth = held.ratio * fitted.worth(np.stack(states))
        predictions: list[float | None] = worth.tolist()
        return predictions, metrics


class Held(NamedTuple):
    """A penalty, and how well it predicts labels that were held out."""

    penalty: float
    pearson: float | None
    ratio: float
    """Their mean worth over the mean predicted, with one more label that is as predicted."""


def held_out(model: Regression, features: Floats, outcomes: Outcomes) -> Held:
    """The penalty that predicts every fifth label best from the others."""
    held = np.arange(len(features)) % 5 == 0
    known, wanted = outcomes.take(~held), outcomes.take(held)
    fits = model.fit(features[~held], known, model.penalties)
    best = int(np.argmin([fitted.loss(features[held], wanted) for fitted in fits]))
    predicted, actual = fits[best].worth(features[held]), wanted.worth(model.harder)
    one = float(predicted.mean())
    ratio = (float(actual.sum()) + one) / (float(predicted.sum()) + one) if one > 0 else 1.0
    correlation = pearson(predicted.tolist(), actual.tolist())
    return Held(model.penalties[best], correlation, ratio if model.overdispersed else 1.0)


def require_depths(key: str, depths: Sequence[float]) -> None:
    """Refuse depths that are not of the network."""
    inside = bool(depths) and all(0 < depth <= 1 for depth in depths)
    require(inside, key, list(depths), "use shares of the network, above 0 up to 1")
