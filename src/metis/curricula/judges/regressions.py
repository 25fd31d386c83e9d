"""Regressions from the policy's hidden states to the reward variance of prompts.

`ridge` predicts the variance directly; `logistic` predicts the pass rate p, and the expected
p (1 - p) under its posterior: it falls again for nearly all-pass prompts, where ridge regression
keeps rising, and if all labels are all-fail, it is highest for prompts least like them. The
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
    LinearModel,
    LogisticModel,
    binomial_loss,
    logistic,
    ridge,
    sigmoid,
)
from metis.curricula.judges.skill import pearson

Kind = Literal["ridge", "logistic"]

NODES = np.linspace(-6.0, 6.0, 121)
NODE_WEIGHTS = np.exp(-np.square(NODES) / 2) / np.exp(-np.square(NODES) / 2).sum()
"""Quadrature for expectations under the standard normal distribution."""

FOLDS, ENOUGH = 5, 512
"""5-fold cross-validation; fewer folds once they have this many labels in total."""


class Outcomes(NamedTuple):
    """Outcomes of prompts, as columns."""

    variances: Floats
    means: Floats
    rollouts: Floats
    folds: Floats
    """Cross-validation folds by prompt, so that repeated prompts do not predict themselves."""

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

    def pass_rate(self, features: Floats) -> Floats | None:
        """The expected pass rate; None of a regression of the variance alone."""
        ...

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        """The loss on held-out labels, to choose the penalty."""
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

    line: LinearModel

    def variance(self, features: Floats) -> Floats:
        return self.line.predict(features)

    def pass_rate(self, features: Floats) -> Floats | None:
        return None

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        return float(np.sum(np.square(self.variance(features) - outcomes.variances)))


@dataclass(frozen=True)
class Logistic:
    """Logistic regression of the pass rate p.

    Overdispersion: pass rates of prompts that look the same differ, so their mean variance is lower
    than that of their mean; held-out labels estimate by how much.
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

    log_odds: LogisticModel

    def variance(self, features: Floats) -> Floats:
        points = self._posterior(features)
        values = sigmoid(points) * sigmoid(-points)
        return np.asarray(values @ NODE_WEIGHTS)

    def pass_rate(self, features: Floats) -> Floats | None:
        return np.asarray(sigmoid(self._posterior(features)) @ NODE_WEIGHTS)

    def _posterior(self, features: Floats) -> Floats:
        """Log-odds at the nodes of the quadrature."""
        mean, spread = self.log_odds.predict(features), self.log_odds.spread(features)
        return np.asarray(mean[:, None] + spread[:, None] * NODES)

    def loss(self, features: Floats, outcomes: Outcomes) -> float:
        mean = self.log_odds.predict(features)
        return binomial_loss(mean, outcomes.passes, outcomes.rollouts)


Regression = Ridge | Logistic


def regression(kind: Kind, rewards: Rewards) -> Regression:
    """The regression of this kind; always ridge for continuous rewards."""
    return Logistic() if (kind, rewards) == ("logistic", "binary") else Ridge()


class CrossValidation(NamedTuple):
    """The chosen penalty, and how well it predicts held-out labels."""

    penalty: float
    pearson: float | None
    ratio: float
    """Realised over predicted mean variance, with one pseudo-label; at most 1."""
    predicted: Floats
    """The held-out prediction for each label; NaN for those never held out."""


def cross_validate(model: Regression, features: Floats, outcomes: Outcomes) -> CrossValidation:
    """Choose the penalty with the lowest cross-validated loss."""
    masks = _held(outcomes.folds)
    held_out = np.full(len(outcomes.folds), np.nan)
    if not masks:
        return CrossValidation(model.penalties[0], None, 1.0, held_out)
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
    ratio = ratio if model.overdispersed else 1.0
    for mask, values in zip(masks, foretold, strict=True):
        held_out[mask] = ratio * values
    correlation = pearson(_centred(foretold), _centred(realised))
    return CrossValidation(model.penalties[best], correlation, ratio, held_out)


def _held(folds: Floats) -> list[NDArray[np.bool_]]:
    """The masks of folds to hold out; empty if all labels are in one fold."""
    masks: list[NDArray[np.bool_]] = []
    present = np.unique(folds)
    for fold in present if len(present) > 1 else ():
        if sum(mask.sum() for mask in masks) < ENOUGH:
            masks.append(folds == fold)
    return masks


def _centred(parts: Sequence[Floats]) -> list[float]:
    """Centred per fold: a fit without a fold is biased away from its mean."""
    return [float(value) for part in parts for value in part - part.mean()]
