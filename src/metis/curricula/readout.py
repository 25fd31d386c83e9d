"""A linear readout of the policy's states: ridge regression to what such prompts were worth.

Labels are of the last steps, each with the state that was read when its prompt was chosen. Of six
penalties, the one is taken that predicts every fifth label best from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core.state import Stateful
from metis.curricula.judge.diagnostics import pearson
from metis.errors import require

Floats = NDArray[np.float64]
States = Sequence[NDArray[np.float32]]

PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
"""Candidates for alpha, for states scaled to length 1: the ratio of noise to signal."""


@dataclass
class Readout(Stateful):
    """Labels with their states, and the regression on them."""

    labels: list[tuple[int, NDArray[np.float32], Floats]] = field(init=False, default_factory=list)
    """A step, the states of its prompts, and what they were worth."""

    def forget(self, step: int, window: int) -> None:
        """Drop the labels of more than `window` steps ago."""
        self.labels = [label for label in self.labels if label[0] >= step - window]

    def learn(self, states: States, worth: Sequence[float | None], step: int) -> None:
        """Take up the outcomes of a step, where there is one."""
        labelled = [(s, value) for s, value in zip(states, worth, strict=True) if value is not None]
        if labelled:
            features = np.stack([state for state, _ in labelled])
            self.labels.append((step, features, np.array([value for _, value in labelled])))

    def predict(self, states: States) -> tuple[list[float | None], dict[str, float]]:
        """The worth of each state, None before there are labels; and metrics of the regression."""
        count = sum(len(worth) for _, _, worth in self.labels)
        metrics = {"select/labels": float(count)}
        if count < 2 or not states:
            return [None] * len(states), metrics
        features = np.concatenate([features for _, features, _ in self.labels]).astype(np.float64)
        worth = np.concatenate([worth for _, _, worth in self.labels])
        metrics["select/penalty"], correlation = best_penalty(features, worth)
        if correlation is not None:
            metrics["select/held_out_pearson"] = correlation
        (line,) = ridge(features, worth, [metrics["select/penalty"]])
        predictions: list[float | None] = line.predict(np.stack(states)).tolist()
        return predictions, metrics


def require_depths(key: str, depths: Sequence[float]) -> None:
    """Refuse depths that are not of the network."""
    inside = bool(depths) and all(0 < depth <= 1 for depth in depths)
    require(inside, key, list(depths), "use shares of the network, above 0 up to 1")


class Line(NamedTuple):
    """A fitted ridge regression."""

    centre: Floats
    scale: Floats
    weights: Floats
    offset: float

    def predict(self, features: Floats) -> Floats:
        return self.offset + (features - self.centre) / self.scale @ self.weights


def ridge(features: Floats, labels: Floats, penalties: Sequence[float]) -> list[Line]:
    """Ridge regression on standardised features, once for each penalty."""
    width = features.shape[1]
    centre, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(spread > 1e-9, spread, np.inf) * np.sqrt(width)
    inputs, offset = (features - centre) / scale, float(labels.mean())
    # X' (X X' + alpha)^-1 v = (X' X + alpha)^-1 X' v: the left system has a row a label, the right
    # one a row a feature, and the smaller is solved.
    dual = len(inputs) < width
    gram = inputs @ inputs.T if dual else inputs.T @ inputs
    target = labels - offset if dual else inputs.T @ (labels - offset)
    solved = [np.linalg.solve(gram + penalty * np.eye(len(gram)), target) for penalty in penalties]
    weights = [inputs.T @ each for each in solved] if dual else solved
    return [Line(centre, scale, each, offset) for each in weights]


def best_penalty(features: Floats, labels: Floats) -> tuple[float, float | None]:
    """The penalty that predicts every fifth label best from the others, and how well: Pearson."""
    held = np.arange(len(labels)) % 5 == 0
    lines = ridge(features[~held], labels[~held], PENALTIES)
    guesses = [line.predict(features[held]) for line in lines]
    errors = [float(np.mean(np.square(guess - labels[held]))) for guess in guesses]
    best = int(np.argmin(errors))
    return PENALTIES[best], pearson(guesses[best].tolist(), labels[held].tolist())
