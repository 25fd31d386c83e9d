"""L2-penalised linear models of hidden states: ridge regression, and logistic regression of passes.

Features are standardised and scaled to a norm of about 1, so that penalties mean the same for every
width.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COMPONENTS = 256
"""Principal components for the logistic regression."""

SPARE, ITERATIONS = 32, 4
"""Oversampling and iterations of the subspace iteration."""

NEWTON_STEPS = 30
HALVINGS = 20
CONVERGED = 1e-6


class LinearModel(NamedTuple):
    """A fitted linear model."""

    centre: Floats
    scale: Floats
    weights: Floats
    offset: float

    def predict(self, features: Floats) -> Floats:
        return self.offset + self.inputs(features) @ self.weights

    def inputs(self, features: Floats) -> Floats:
        return (features - self.centre) / self.scale


class LogisticModel(NamedTuple):
    """A fitted logistic regression with a normal posterior of log-odds (Laplace approximation)."""

    line: LinearModel
    axes: Floats
    curvature: Floats
    """The Hessian of the penalised loss, for principal components and intercept."""
    penalty: float

    def predict(self, features: Floats) -> Floats:
        """The mean log-odds."""
        return self.line.predict(features)

    def spread(self, features: Floats) -> Floats:
        """The posterior standard deviation of log-odds, larger far from all labels."""
        inputs = self.line.inputs(features)
        design = _design(inputs, self.axes)
        inside = np.einsum("ij,ji->i", design, np.linalg.solve(self.curvature, design.T))
        outside = np.square(inputs).sum(axis=1) - np.square(design[:, :-1]).sum(axis=1)
        return np.asarray(np.sqrt(inside + np.maximum(outside, 0.0) / self.penalty))


def ridge(features: Floats, labels: Floats, penalties: Sequence[float]) -> list[LinearModel]:
    """Ridge regression, for each penalty."""
    centre, scale = _standard(features)
    inputs, offset = (features - centre) / scale, float(labels.mean())
    # X' (X X' + alpha)^-1 v = (X' X + alpha)^-1 X' v: solve the smaller system, of the number of
    # labels (left) or features (right).
    dual = len(inputs) < inputs.shape[1]
    gram = inputs @ inputs.T if dual else inputs.T @ inputs
    target = labels - offset if dual else inputs.T @ (labels - offset)
    systems = (gram + penalty * np.eye(len(gram)) for penalty in penalties)
    solved = [np.linalg.solve(system, target) for system in systems]
    weights = [np.asarray(inputs.T @ each if dual else each) for each in solved]
    return [LinearModel(centre, scale, each, offset) for each in weights]


def logistic(
    features: Floats, passes: Floats, trials: Floats, penalties: Sequence[float]
) -> list[LogisticModel]:
    """Logistic regression of passes out of trials, for each penalty.

    The intercept has a weak prior at the overall log-odds (weight 1), so that it is finite for
    all-pass or all-fail labels.
    """
    centre, scale = _standard(features)
    inputs = (features - centre) / scale
    axes = _principal_axes(inputs)
    design = _design(inputs, axes)
    rate = (passes.sum() + 0.5) / (trials.sum() + 1.0)
    prior = np.zeros(design.shape[1])
    prior[-1] = np.log(rate / (1.0 - rate))
    weights, fitted = prior, []
    for penalty in penalties:
        precision = np.full(len(prior), float(penalty))
        precision[-1] = 1.0
        weights = _newton(design, passes, trials, prior, precision, weights)
        line = LinearModel(centre, scale, axes @ weights[:-1], float(weights[-1]))
        curvature = _curvature(design, trials, precision, weights)
        fitted.append(LogisticModel(line, axes, curvature, penalty))
    return fitted


def sigmoid(log_odds: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * log_odds))


def binomial_loss(log_odds: Floats, passes: Floats, trials: Floats) -> float:
    """Negative log-likelihood of passes out of trials."""
    return float(np.sum(trials * np.logaddexp(0.0, log_odds) - passes * log_odds))


def _standard(features: Floats) -> tuple[Floats, Floats]:
    """Centre and scale of the features; a constant one has an infinite scale."""
    spread = features.std(axis=0)
    scale = np.where(spread > 1e-9, spread, np.inf) * np.sqrt(features.shape[1])
    return features.mean(axis=0), scale


def _design(inputs: Floats, axes: Floats) -> Floats:
    return np.column_stack([inputs @ axes, np.ones(len(inputs))])


def _principal_axes(inputs: Floats) -> Floats:
    """The leading principal axes, from the smaller Gram matrix.

    If both are large, by randomised subspace iteration.
    """
    if min(inputs.shape) > 4 * COMPONENTS:
        axes = np.random.default_rng(0).normal(size=(inputs.shape[1], COMPONENTS + SPARE))
        for _ in range(ITERATIONS):
            axes, _ = np.linalg.qr(inputs.T @ (inputs @ axes))
        _, _, turned = np.linalg.svd(inputs @ axes, full_matrices=False)
        return np.asarray(axes @ turned[:COMPONENTS].T)
    dual = len(inputs) < inputs.shape[1]
    values, vectors = np.linalg.eigh(inputs @ inputs.T if dual else inputs.T @ inputs)
    kept = np.flatnonzero(values > 1e-9 * max(values[-1], 1e-9))[-COMPONENTS:]
    axes = vectors[:, kept]
    return inputs.T @ axes / np.sqrt(values[kept]) if dual else axes


def _curvature(design: Floats, trials: Floats, precision: Floats, weights: Floats) -> Floats:
    """The Hessian of the penalised loss at these weights."""
    rates = sigmoid(design @ weights)
    rows = design * (trials * rates * (1.0 - rates))[:, None]
    return np.asarray(rows.T @ design + np.diag(precision))


def _newton(
    design: Floats,
    passes: Floats,
    trials: Floats,
    prior: Floats,
    precision: Floats,
    weights: Floats,
) -> Floats:
    """Newton's method with step halving, from these weights."""

    def loss(at: Floats) -> float:
        penalty = 0.5 * float(precision @ np.square(at - prior))
        return binomial_loss(design @ at, passes, trials) + penalty

    value = loss(weights)
    for _ in range(NEWTON_STEPS):
        rates = sigmoid(design @ weights)
        gradient = design.T @ (trials * rates - passes) + precision * (weights - prior)
        step = np.linalg.solve(_curvature(design, trials, precision, weights), gradient)
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
