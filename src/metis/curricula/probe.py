"""Probe: a linear readout of the policy's own state of the prompt predicts its variance.

Idea       The policy may know what it can nearly do without being asked: ridge regression from its
           hidden state of a prompt to the variance that such prompts had in the last steps.
Equation   v_hat(x) = mean v + w . z(x), w = argmin sum (v - mean v - w . z)^2 + alpha |w|^2, with z
           the standardised state; S_t = TopB v_hat(x) (METIS, Eq. 6). Of six alphas, the one that
           predicts every fifth label best from the others.
Acts       before rollouts
Costs      m*B forward passes of the prompt a step
Continuous the same: v is defined for any reward
Reference  Linear probes: Alain and Bengio, arXiv 1610.01644; the selection is METIS's, Zheng et
           al., arXiv 2605.11235.
Deviations
1. No paper proposes it as a curriculum: it is here because METIS should be better than this.
2. A label keeps the state that was read when its prompt was chosen. Reading all of them again after
   each update would cost more passes than the candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Batch, Embed, Group, Plan, Progress, embed, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judge.diagnostics import pearson
from metis.curricula.selection import choice_metrics, choose, decisions, explore_slots
from metis.errors import require, require_at_least

Floats = NDArray[np.float64]

PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
"""Candidates for alpha, for states scaled to length 1: the ratio of noise to signal."""


@dataclass
class Probe(Stateful):
    """Ridge regression on the policy's hidden state picks the prompts expected to vary most.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates are read (8)
    explore       share of the batch drawn uniformly, so that labels are not only of what was chosen
    window        steps whose outcomes are the labels (20)
    """

    batch: int = 256
    group: int = 8
    multiplier: int = 8
    explore: float = 0.1
    window: int = 20

    labels: list[tuple[int, NDArray[np.float32], Floats]] = field(init=False, default_factory=list)
    """A step, the states of its prompts, and their variances."""

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1, "window": 1}, "curriculum.")
        require(0 <= self.explore <= 1, "curriculum.explore", self.explore, "use a share, 0 to 1")

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({Embed}))

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        self.labels = [label for label in self.labels if label[0] >= progress.step - self.window]
        candidates = pool.sample(self.multiplier * self.batch)
        states = yield from embed(candidates)
        scores, metrics = self._predict(states)
        choice = choose(
            scores,
            self.batch,
            explore_slots(self.batch, self.explore),
            progress.rng("explore"),
            progress.rng("ties"),
        )
        positions = sorted(choice.explored + choice.top)
        groups = yield from rollout([candidates[i] for i in positions], self.group)
        self._learn([states[i] for i in positions], groups, progress.step)
        metrics |= choice_metrics(choice)
        return Batch(groups, metrics=metrics, decisions=decisions(candidates, choice, scores))

    def _predict(
        self, states: Sequence[NDArray[np.float32]]
    ) -> tuple[list[float | None], dict[str, float]]:
        """v_hat of each candidate; None, so that the choice is uniform, before there are labels."""
        count = sum(len(variances) for _, _, variances in self.labels)
        metrics = {"select/labels": float(count)}
        if count < 2 or not states:
            return [None] * len(states), metrics
        known = np.concatenate([features for _, features, _ in self.labels]).astype(np.float64)
        variances = np.concatenate([variances for _, _, variances in self.labels])
        metrics["select/penalty"], correlation = best_penalty(known, variances)
        if correlation is not None:
            metrics["select/held_out_pearson"] = correlation
        (line,) = ridge(known, variances, [metrics["select/penalty"]])
        predictions: list[float | None] = line.predict(np.stack(states)).tolist()
        return predictions, metrics

    def _learn(
        self, states: Sequence[NDArray[np.float32]], groups: Sequence[Group], step: int
    ) -> None:
        known = [
            (state, v)
            for state, g in zip(states, groups, strict=True)
            if (v := g.variance) is not None
        ]
        if known:
            features = np.stack([state for state, _ in known])
            self.labels.append((step, features, np.array([v for _, v in known])))


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
    known = labels - offset if dual else inputs.T @ (labels - offset)
    solved = [np.linalg.solve(gram + penalty * np.eye(len(gram)), known) for penalty in penalties]
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
