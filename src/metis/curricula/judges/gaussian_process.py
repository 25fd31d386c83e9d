"""The judge by similar prompts: a Gaussian process of the pass rate, over hidden states.

It is the predictor of VIP (Nguyen et al., arXiv 2602.01601), with the numbers of its released code:
a prior of log-odds, a kernel of the distance between embeddings, and a posterior mean that each
step's outcomes move. The mean is a sum over the prompts seen so far, of weight times kernel, so one
weight per prompt is all that is kept of its outcomes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metis.core import Embed, Group, Plan, Progress, Prompt, embed
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges.linear import Floats, sigmoid
from metis.curricula.judges.protocol import SECTION, Judge, Lesson, Prediction, Predictions
from metis.errors import require

Feature = NDArray[np.float32]

WIDTH = 384
"""Hidden states are projected to this width, that of the paper's embeddings, to be kept."""

CERTAIN = 1e-6
"""Pass rates are clipped to this distance from 0 and 1."""

PRIOR = -1.0
"""Log-odds of the pass rate of a prompt unlike any seen so far."""

NOISE = 1e-4
"""Variance of an observed log-odds."""


@dataclass(frozen=True)
class ProcessPredictions(Predictions):
    """Predictions, with the features of prompts that were read in this step."""

    features: Mapping[str, Feature] = field(default_factory=dict)


@dataclass
class GaussianProcess(Stateful, Judge[ProcessPredictions]):
    """A Gaussian process of hidden states predicts p, and p (1 - p).

    layer     the layer to read, as a fraction of the depth; 1 is the last (2/3)
    """

    layer: float = 2 / 3

    rows: dict[str, int] = field(init=False, default_factory=dict)
    """The row of every prompt with an outcome."""
    features: Feature = field(init=False, default_factory=lambda: np.zeros((0, 0), np.float32))
    """Their features, one row each, from when they were first read."""
    weights: Floats = field(init=False, default_factory=lambda: np.zeros(0))
    scaling: Floats = field(init=False, default_factory=lambda: np.zeros((2, 0)))
    """Centre and scale of the hidden states of the first step."""
    bandwidth: float = field(init=False, default=0.0)
    """The median distance of its prompts."""

    def __post_init__(self) -> None:
        remedy = "use a share of the network, above 0 up to 1"
        require(0 < self.layer <= 1, f"{SECTION}layer", self.layer, remedy)

    def needs(self, batch: int) -> Needs:
        return Needs(frozenset({Embed}), depths=(self.layer,))

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[ProcessPredictions]:
        unseen = [prompt for prompt in candidates if prompt.id not in self.rows]
        states = yield from embed(unseen, [self.layer])
        finite = [(p.id, s) for p, s in zip(unseen, states, strict=True) if np.isfinite(s).all()]
        read = dict(zip((name for name, _ in finite), self._scaled(finite), strict=True))
        known = [prompt for prompt in candidates if prompt.id in self.rows or prompt.id in read]
        log_odds = self.mean(np.array([self._feature(prompt.id, read) for prompt in known]))
        rates = dict(zip((prompt.id for prompt in known), sigmoid(log_odds).tolist(), strict=True))
        predictions = [_prediction(prompt, rates.get(prompt.id)) for prompt in candidates]
        metrics = {"select/labels": float(len(self.rows))}
        return ProcessPredictions(predictions, metrics=metrics, features=read)

    def mean(self, features: Floats) -> Floats:
        """The posterior mean of the log-odds."""
        if not len(features) or not len(self.rows):
            return np.full(len(features), PRIOR)
        return np.asarray(PRIOR + self._kernel(features, self.features) @ self.weights)

    def learn(
        self,
        predictions: ProcessPredictions,
        groups: Sequence[Group],
        pool: Pool,
        progress: Progress,
    ) -> Lesson:
        outcomes = {
            group.prompt.id: group.mean
            for group in groups
            if group.mean is not None
            and (group.prompt.id in self.rows or group.prompt.id in predictions.features)
        }
        self._add([name for name in outcomes if name not in self.rows], predictions.features)
        places = np.array([self.rows[name] for name in outcomes], dtype=np.int64)
        if len(places):
            rates = np.clip(np.array(list(outcomes.values())), CERTAIN, 1 - CERTAIN)
            seen = self.features[places].astype(np.float64)
            surprise = np.log(rates) - np.log1p(-rates) - self.mean(seen)
            among = self._kernel(seen, seen) + NOISE * np.eye(len(seen))
            self.weights[places] += np.linalg.solve(among, surprise)
        return Lesson()

    def _kernel(self, one: NDArray[Any], other: NDArray[Any]) -> Floats:
        """exp(-d^2 / (2 bandwidth^2))."""
        return np.asarray(np.exp(-0.5 * _squares(one, other) / self.bandwidth**2))

    def _scaled(self, states: Sequence[tuple[str, Feature]]) -> list[Feature]:
        """Features of hidden states; those of the first step set scale and bandwidth."""
        if not states:
            return []
        table = np.stack([state for _, state in states]).astype(np.float64)
        first = not self.bandwidth
        if first:
            spread = table.std(axis=0)
            self.scaling = np.stack([table.mean(axis=0), np.where(spread > 1e-9, spread, np.inf)])
        centre, scale = self.scaling
        features = _projected((table - centre) / scale / np.sqrt(table.shape[1]))
        if first:
            distances = np.sqrt(_squares(features, features))[np.triu_indices(len(features), k=1)]
            self.bandwidth = float(np.median(distances)) if distances.any() else 1.0
            self.bandwidth = self.bandwidth or float(distances[distances > 0].min())
        return list(features.astype(np.float32))

    def _feature(self, name: str, read: Mapping[str, Feature]) -> Floats:
        feature = read[name] if name in read else self.features[self.rows[name]]
        return np.asarray(feature, dtype=np.float64)

    def _add(self, names: Sequence[str], read: Mapping[str, Feature]) -> None:
        """Rows of prompts that have their first outcome."""
        if names:
            new = np.stack([read[name] for name in names])
            self.features = np.concatenate([self.features.reshape(-1, new.shape[1]), new])
            self.weights = np.concatenate([self.weights, np.zeros(len(names))])
            self.rows |= {name: len(self.rows) + i for i, name in enumerate(names)}


def _prediction(prompt: Prompt, rate: float | None) -> Prediction:
    if rate is None:
        return Prediction(prompt, None, None)
    return Prediction(prompt, rate * (1 - rate), rate * (1 - rate), pass_rate=rate)


def _squares(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    """Squared distances."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    sums = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1)
    return np.asarray(np.maximum(sums - 2 * one @ other.T, 0.0))


def _projected(features: Floats) -> Floats:
    """At most 384 random projections, which keep distances (Johnson and Lindenstrauss, 1984)."""
    width = features.shape[1]
    return features if width <= WIDTH else np.asarray(features @ _projection(width))


@cache
def _projection(width: int) -> Floats:
    directions = np.random.default_rng(0).normal(size=(width, WIDTH))
    return np.asarray(directions / np.sqrt(WIDTH))
