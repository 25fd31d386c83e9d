"""Regressions of the variance of prompts on the policy's states.

`ridge` regresses the variance itself; `logistic` regresses the pass rate p, and takes the expected
p (1 - p) under its posterior: lower for what is nearly solved than at the frontier, where ridge
regression goes on rising; and where all labels fail, highest for what is least like them. The
penalty, one of six, is chosen by cross-validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from metis.core.pool import Rewards
from metis.curricula.judges.linear import (
    Floats,
    Line,
    LogOdds,
    binomial_loss,
    logistic,
    ridge,
    sigmoid,
)
from metis.curricula.judges.skill import pearson

Kind = Literal["ridge", "logistic"]

NODES = np.linspace(-6.0, 6.0, 121)
NODE_WEIGHTS = np.exp(-np.square(NODES) / 2) / np.exp(-np.square(NODES) / 2).sum()
"""The trapezoidal rule under the standard normal distribution, for any spread of log-odds."""

FOLDS, ENOUGH = 5, 512
"""5-fold cross-validation; fewer folds once they hold so many labels together."""


class Outcomes(NamedTuple):
    """Outcomes of prompts, an entry each."""

    variances: Floats
    means: Floats
    rollouts: Floats
    folds: Floats
    """Of cross-validation; a prompt that came twice has the same, so that none predicts itself."""

    @classmethod
    def of(cls, rows: Floats) -> "Outcomes":
        return cls(*rows.T)

    def take(self, places: NDArray[np.bool_]) -> "Outcomes":
        return Outcomes(*(column[places] for column in self))

    @property
    def passes(self) -> Floats:
        return self.means * self.rollouts


class Fitted(Protocol):
    """A fitted regression."""

    def variance(self, features: Floats) -> Floats: ...

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        """The loss on other labels, which decides between penalties."""
        ...


@dataclass(frozen=True)
class Ridge:
    """Ridge regression of the variance."""

    penalties: ClassVar = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
    overdispersed: ClassVar = False

    def fit(
        self, features: Floats, outcomes: Outcomes, penalties: Sequence[float]
    ) -> Sequence[Fitted]:
        return [FittedVariance(line) for line in ridge(features, outcomes.variances, penalties)]


class FittedVariance(NamedTuple):
    """A fitted ridge regression."""

    line: Line

    def variance(self, features: Floats) -> Floats:
        return self.line.predict(features)

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        return float(np.sum(np.square(self.variance(features) - outcomes.variances)))


@dataclass(frozen=True)
class Logistic:
    """Logistic regression of the pass rate p.

    Pass rates of prompts that it cannot tell apart differ, so that their mean variance is lower
    than that of their mean: held-out labels say by how much.
    """

    penalties: ClassVar = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
    overdispersed: ClassVar = True

    def fit(
        self, features: Floats, outcomes: Outcomes, penalties: Sequence[float]
    ) -> Sequence[Fitted]:
        fitted = logistic(features, outcomes.passes, outcomes.rollouts, penalties)
        return [FittedRate(log_odds) for log_odds in fitted]


class FittedRate(NamedTuple):
    """A fitted logistic regression; the variance is the expected p (1 - p)."""

    log_odds: LogOdds

    def variance(self, features: Floats) -> Floats:
        mean, spread = self.log_odds.predict(features), self.log_odds.spread(features)
        points = mean[:, None] + spread[:, None] * NODES
        values = sigmoid(points) * sigmoid(-points)
        return np.asarray(values @ NODE_WEIGHTS)

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        mean = self.log_odds.predict(features)
        return binomial_loss(mean, outcomes.passes, outcomes.rollouts)


Regression = Ridge | Logistic


def regression(kind: Kind, rewards: Rewards) -> Regression:
    """The regression asked for; of rewards that are no passes, ridge regression."""
    return Logistic() if (kind, rewards) == ("logistic", "binary") else Ridge()


class Held(NamedTuple):
    """A penalty, and how well it predicts labels that were held out."""

    penalty: float
    pearson: float | None
    ratio: float
    """Their mean variance over the mean predicted, one more label as predicted; 1 at most."""


def held_out(model: Regression, features: Floats, outcomes: Outcomes) -> Held:
    """The penalty of the lowest cross-validated loss."""
    masks = _held(outcomes.folds)
    if not masks:
        return Held(model.penalties[0], None, 1.0)
    fits = [model.fit(features[~m], outcomes.take(~m), model.penalties) for m in masks]
    losses = [
        [fitted.loss(features[mask], outcomes.take(mask)) for fitted in each]
        for each, mask in zip(fits, masks, strict=True)
    ]
    best = int(np.argmin(np.sum(losses, axis=0)))
    pairs = zip(fits, masks, strict=True)
    foretold = [each[best].variance(features[mask]) for each, mask in pairs]
    realised = [outcomes.take(mask).variances for mask in masks]
    predicted, actual = np.concatenate(foretold), np.concatenate(realised)
    one = float(predicted.mean())
    ratio = (float(actual.sum()) + one) / (float(predicted.sum()) + one) if one > 0 else 1.0
    ratio = min(ratio, 1.0)
    correlation = pearson(_centred(foretold), _centred(realised))
    return Held(model.penalties[best], correlation, ratio if model.overdispersed else 1.0)


def _held(folds: Floats) -> list[NDArray[np.bool_]]:
    """The folds to hold out, one after the other; none where all labels are of one."""
    masks: list[NDArray[np.bool_]] = []
    present = np.unique(folds)
    for fold in present if len(present) > 1 else ():
        if sum(mask.sum() for mask in masks) < ENOUGH:
            masks.append(folds == fold)
    return masks


def _centred(parts: Sequence[Floats]) -> list[float]:
    """Around the mean of each fold: a fit without it is drawn to the other side of that."""
    return [float(value) for part in parts for value in part - part.mean()]
