"""The labels of a readout, and its predictions.

Labels are of the last steps, each with the state that was read when its prompt was chosen.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis.core import Group
from metis.core.state import Stateful
from metis.curricula.readout.linear import Floats
from metis.curricula.readout.models import FOLDS, Outcomes, Regression, held_out
from metis.errors import require

States = Sequence[NDArray[np.float32]]


@dataclass
class Readout(Stateful):
    """Labels with their states, and the regression on them."""

    labels: list[tuple[int, NDArray[np.float32], Floats]] = field(init=False, default_factory=list)
    """A step, the states of its prompts, and their outcomes, a row each."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Labels that an older METIS saved, of another shape, are left out."""
        super().load_state_dict(state)
        columns = len(Outcomes._fields)
        self.labels = [each for each in self.labels if np.shape(each[2])[1:] == (columns,)]

    def forget(self, step: int, window: int) -> None:
        """Drop the labels of more than `window` steps ago."""
        self.labels = [label for label in self.labels if label[0] >= step - window]

    def learn(self, states: States, groups: Sequence[Group], step: int) -> None:
        """Take up the outcomes of a step, where there is one."""
        labelled = [
            (state, (group.variance, group.mean, len(group.rewards), _fold(group.prompt.id)))
            for state, group in zip(states, groups, strict=True)
            if group.variance is not None and np.isfinite(state).all()
        ]
        if labelled:
            features = np.stack([state for state, _ in labelled])
            rows = np.array([outcome for _, outcome in labelled], dtype=np.float64)
            self.labels.append((step, features, rows))

    def predict(
        self, states: States, model: Regression
    ) -> tuple[list[float | None], dict[str, float]]:
        """The worth of each state, and metrics of the regression.

        None before there are labels, and of a state that is no number.
        """
        count = sum(len(rows) for _, _, rows in self.labels)
        metrics = {"select/labels": float(count)}
        known = [bool(np.isfinite(state).all()) for state in states]
        if count < 2 or not any(known):
            return [None] * len(states), metrics
        features = np.concatenate([features for _, features, _ in self.labels]).astype(np.float64)
        outcomes = Outcomes.of(np.concatenate([rows for _, _, rows in self.labels]))
        held = held_out(model, features, outcomes)
        metrics["select/penalty"] = held.penalty
        if held.pearson is not None:
            metrics["select/held_out_pearson"] = held.pearson
        (fitted,) = model.fit(features, outcomes, [held.penalty])
        asked = np.stack(states)[known].astype(np.float64)
        worth = iter((held.ratio * fitted.worth(asked)).tolist())
        return [next(worth) if each else None for each in known], metrics


def _fold(prompt: str) -> int:
    return zlib.crc32(prompt.encode()) % FOLDS


def require_depths(key: str, depths: Sequence[float]) -> None:
    """Refuse depths that are not of the network."""
    inside = bool(depths) and all(0 < depth <= 1 for depth in depths)
    require(inside, key, list(depths), "use shares of the network, above 0 up to 1")
