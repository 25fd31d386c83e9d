"""Penalised linear models of hidden states: ridge regression, and logistic regression of passes.

Both are on standardised features, scaled so that a state has about length 1: penalties mean the
same for every width.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COMPONENTS = 256
"""Principal components that a logistic regression is on: its Newton steps stay cheap for any width
and any number of labels."""

NEWTON_STEPS = 30
HALVINGS = 20
CONVERGED = 1e-6


class Line(NamedTuple):
    """A fitted linear model; of a logistic regression, the log-odds."""

    centre: Floats
    scale: Floats
    weights: Floats
    offset: float

    def predict(self, features: Floats) -> Floats:
        return self.offset + (features - self.centre) / self.scale @ self.weights


def ridge(features: Floats, labels: Floats, penalties: Sequence[float]) -> list[Line]:
    """Ridge regression, once for each penalty."""
    centre, scale = _standard(features)
    inputs, offset = (features - centre) / scale, float(labels.mean())
    # X' (X X' + alpha)^-1 v = (X' X + alpha)^-1 X' v: the left system has a row a label, the right
    # one a row a feature, and the smaller is solved.
    dual = len(inputs) < inputs.shape[1]
    gram = inputs @ inputs.T if dual else inputs.T @ inputs
    target = labels - offset if dual else inputs.T @ (labels - offset)
    systems = (gram + penalty * np.eye(len(gram)) for penalty in penalties)
    solved = [np.linalg.solve(system, target) for system in systems]
    weights = [np.asarray(inputs.T @ each if dual else each) for each in solved]
    return [Line(centre, scale, each, offset) for each in weights]


def logistic(
    features: Floats, passes: Floats, trials: Floats, penalties: Sequence[float]
) -> list[Line]:
    """Logistic regression of passes out of trials, once for each penalty.

    The intercept is drawn to the log-odds of all labels with the weight of one trial, so that it is
    finite where none of them passes, or all do.
    """
    centre, scale = _standard(features)
    inputs = (features - centre) / scale
    axes = _principal_axes(inputs)
    design = np.column_stack([inputs @ axes, np.ones(len(inputs))])
    share = (passes.sum() + 0.5) / (trials.sum() + 1.0)
    prior = np.zeros(design.shape[1])
    prior[-1] = np.log(share / (1.0 - share))
    weights, lines = prior, []
    for penalty in penalties:
        precision = np.full(len(prior), float(penalty))
        precision[-1] = 1.0
        weights = _newton(design, passes, trials, prior, precision, weights)
        lines.append(Line(centre, scale, axes @ weights[:-1], float(weights[-1])))
    return lines


def sigmoid(log_odds: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * log_odds))


def binomial_loss(log_odds: Floats, passes: Floats, trials: Floats) -> float:
    """Negative log-likelihood of passes out of trials."""
    return float(np.sum(trials * np.logaddexp(0.0, log_odds) - passes * log_odds))


def _standard(features: Floats) -> tuple[Floats, Floats]:
    """The centre and the scale of features; one that never changes has an infinite scale."""
    spread = features.std(axis=0)
    scale = np.where(spread > 1e-9, spread, np.inf) * np.sqrt(features.shape[1])
    return features.mean(axis=0), scale


def _principal_axes(inputs: Floats) -> Floats:
    """The axes of the most variance, from the smaller of the two Gram matrices."""
    dual = len(inputs) < inputs.shape[1]
    values, vectors = np.linalg.eigh(inputs @ inputs.T if dual else inputs.T @ inputs)
    kept = np.flatnonzero(values > 1e-9 * max(values[-1], 1e-9))[-COMPONENTS:]
    axes = vectors[:, kept]
    return inputs.T @ axes / np.sqrt(values[kept]) if dual else axes


def _newton(
    design: Floats,
    passes: Floats,
    trials: Floats,
    prior: Floats,
    precision: Floats,
    weights: Floats,
) -> Floats:
    """Newton's method from these weights, halving steps that do not lower the penalised loss."""

    def loss(at: Floats) -> float:
        penalty = 0.5 * float(precision @ np.square(at - prior))
        return binomial_loss(design @ at, passes, trials) + penalty

    value = loss(weights)
    for _ in range(NEWTON_STEPS):
        share = sigmoid(design @ weights)
        gradient = design.T @ (trials * share - passes) + precision * (weights - prior)
        curvature = (design * (trials * share * (1.0 - share))[:, None]).T @ design
        step = np.linalg.solve(curvature + np.diag(precision), gradient)
        for _ in range(HALVINGS):
            if (after := loss(weights - step)) <= value:
                break
            step = step / 2
        else:
            return weights
        weights, value = weights - step, after
        if np.abs(step).max() < CONVERGED:
            break
    return weights
