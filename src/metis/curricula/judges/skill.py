"""The skill of a judge: its predictions against the outcomes.

Skill is only measured on exploration slots, an unbiased sample of the candidates: on prompts that
were selected by their predictions, all these numbers would be biased (restricted range). What is
undefined is None, and left out of the metrics.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Group
from metis.core.state import Stateful
from metis.curricula.judges.memory import quantile
from metis.curricula.judges.protocol import Failure, Lesson, Prediction, Predictions
from metis.curricula.judges.scale import GRID
from metis.signal import INFORMATIVE, VARIANCE_MAX

FLAT, FLAT_STEPS = 0.02, 5
"""Spread of predictions, in log-odds, below which they are flat; and steps until a notice."""

DIAGNOSED = 128
"""Minimum number of outcomes of uniform slots for the diagnostics."""

CLIMATOLOGY_STEPS = 10
"""The reference for skill is the mean outcome of this many steps."""


Numbers = Sequence[float]


def pearson(x: Numbers, y: Numbers) -> float | None:
    """Pearson correlation; undefined when either side is constant."""
    if len(x) < 2:
        return None
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    a, b = a - a.mean(), b - b.mean()
    return float(np.clip(a @ b / math.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(x: Numbers, y: Numbers) -> float | None:
    """Spearman rank correlation, ties at their mean rank."""
    return pearson(ranks(x).tolist(), ranks(y).tolist())


def ranks(values: Numbers) -> NDArray[np.float64]:
    """Ranks from 0, equal values sharing the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def skill(v_hat: Numbers, v: Numbers, climatology: Numbers) -> float | None:
    """1 - MSE / MSE of the running mean: 1 is perfect, 0 is no better than a constant."""
    if not v:
        return None
    truth = np.asarray(v, dtype=np.float64)
    reference = float(np.mean(np.square(np.asarray(climatology) - truth)))
    if reference == 0:
        return None
    return 1.0 - float(np.mean(np.square(np.asarray(v_hat) - truth))) / reference


def lift(v_hat: Numbers, v: Numbers, selected: float) -> float | None:
    """Mean outcome of the `selected` fraction of prompts predicted highest, over the mean of all.

    Prompts tied at the cut count in proportion, as with random tie-breaking.
    """
    total = float(np.mean(v)) if v else 0.0
    if total == 0:
        return None
    predictions, outcomes = np.asarray(v_hat, dtype=np.float64), np.asarray(v, dtype=np.float64)
    size = max(1, round(selected * len(outcomes)))
    cut = np.sort(predictions)[::-1][size - 1]
    above, tied = predictions > cut, predictions == cut
    part = (size - above.sum()) / tied.sum()
    return float((outcomes[above].sum() + part * outcomes[tied].sum()) / size / total)


def auroc_informative(v_hat: Numbers, v: Numbers) -> float | None:
    """AUROC of v_hat for informative against zero-variance prompts."""
    informative = np.asarray(v, dtype=np.float64) > INFORMATIVE
    positives, negatives = int(informative.sum()), int((~informative).sum())
    if positives == 0 or negatives == 0:
        return None
    rank_sum = float(ranks(v_hat)[informative].sum())
    return (rank_sum - positives * (positives - 1) / 2) / (positives * negatives)


class Reliability(NamedTuple):
    """The outcomes of the prompts with one predicted value."""

    v_hat: float
    mean_v: float
    outcomes: int


def reliability(v_hat: Numbers, v: Numbers, grid: Numbers) -> list[Reliability]:
    """Mean outcome and count for each value of the grid; predictions go to the nearest one."""
    if not v:
        return []
    values, outcomes = np.asarray(grid, dtype=np.float64), np.asarray(v, dtype=np.float64)
    nearest = np.abs(np.asarray(v_hat)[:, None] - values[None, :]).argmin(axis=1)
    return [
        Reliability(float(value), float(outcomes[nearest == i].mean()), int((nearest == i).sum()))
        for i, value in enumerate(values)
        if (nearest == i).any()
    ]


class PredictionOutcome(NamedTuple):
    """A prediction and what happened; `target` is what the judge was scored against."""

    step: int
    v_hat: float
    rank: float
    """Quantile of the prediction among those for all candidates of its step."""
    v: float
    target: float
    climatology: float | None


def climatology(outcomes: Sequence[PredictionOutcome], step: int) -> float | None:
    """Mean target of the last steps: the constant prediction."""
    recent = [outcome.target for outcome in outcomes if outcome.step >= step - CLIMATOLOGY_STEPS]
    return float(np.mean(recent)) if recent else None


def noted(
    outcomes: list[PredictionOutcome],
    predictions: Sequence[Prediction],
    realised: Sequence[tuple[str, float]],
    targets: Mapping[str, float],
    step: int,
) -> list[PredictionOutcome]:
    """Add the predictions and outcomes of a step's uniform slots."""
    reference = climatology(outcomes, step)
    v_hats = {each.prompt.id: each.v_hat for each in predictions if each.v_hat is not None}
    among = list(v_hats.values())
    new = [
        PredictionOutcome(
            step, v_hats[id], quantile(v_hats[id], among), v, targets.get(id, v), reference
        )
        for id, v in realised
        if id in v_hats
    ]
    return trim(outcomes + new, DIAGNOSED)


def trim(outcomes: list[PredictionOutcome], keep: int) -> list[PredictionOutcome]:
    """The last whole steps with at least `keep` outcomes."""
    if len(outcomes) <= keep:
        return outcomes
    first = outcomes[-keep].step
    return [outcome for outcome in outcomes if outcome.step >= first]


def outcome_metrics(outcomes: Sequence[PredictionOutcome], selected: float) -> dict[str, float]:
    """Metrics of the judge on uniform slots; undefined ones are left out."""
    v_hat, v = [o.v_hat for o in outcomes], [o.v for o in outcomes]
    ranked = [o.rank for o in outcomes]
    scored = [o for o in outcomes if o.climatology is not None]
    values: dict[str, float | None] = {
        "judge/outcomes": float(len(outcomes)),
        **rank_correlation(outcomes),
        "judge/pearson": pearson(v_hat, v),
        "judge/lift": lift(ranked, v, selected),
        "judge/auroc_informative": auroc_informative(ranked, v),
        "judge/skill": skill(
            [o.v_hat for o in scored],
            [o.target for o in scored],
            [o.climatology for o in scored if o.climatology is not None],
        ),
    }
    for row in reliability(v_hat, v, GRID):
        values[f"judge/reliability_{row.v_hat:.2f}"] = row.mean_v
        values[f"judge/reliability_count_{row.v_hat:.2f}"] = float(row.outcomes)
    return {name: value for name, value in values.items() if value is not None}


def rank_correlation(outcomes: Sequence[PredictionOutcome]) -> dict[str, float | None]:
    """Spearman correlation of predictions and outcomes, and its standard error by chance.

    Predictions are ranked within their step: their drift over time is not skill.
    """
    correlation = spearman([o.rank for o in outcomes], [o.v for o in outcomes])
    if correlation is None:
        return {}
    error = 1 / math.sqrt(len(outcomes) - 1)
    return {"judge/spearman": correlation, "judge/spearman_error": error}


def prediction_metrics(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Metrics of the judge on all candidates: its predictions and failures."""
    if not predictions:
        return {}
    failures = Counter(each.failure for each in predictions if each.failure)
    v_hat = np.array([each.v_hat for each in predictions if each.v_hat is not None])
    metrics = {"judge/failure_rate": failures.total() / len(predictions)}
    for kind in Failure:
        name = kind.value.replace(" ", "_")
        metrics[f"judge/failure_{name}"] = failures[kind] / len(predictions)
    if v_hat.size:
        metrics["judge/v_hat_mean"] = float(v_hat.mean())
        metrics["judge/v_hat_std"] = float(v_hat.std())
        metrics["judge/v_hat_distinct"] = float(np.unique(v_hat).size)
        metrics["judge/spread"] = spread_in_log_odds(v_hat)
    return metrics


def spread_in_log_odds(v_hat: NDArray[np.float64]) -> float:
    """Standard deviation of logit(4 v_hat), which does not shrink near 0."""
    odds = np.clip(v_hat / VARIANCE_MAX, 1e-9, 1 - 1e-9)
    return float(np.std(np.log(odds) - np.log1p(-odds)))


def spread_notice(flat: int) -> list[str]:
    """A notice when the predictions have been flat for some steps."""
    if flat != FLAT_STEPS:
        return []
    return [
        f"the judge's predictions have been nearly equal for {FLAT_STEPS} steps (spread below "
        f"{FLAT} in log-odds): its selection is as good as random"
    ]


def most_too_long(predictions: Sequence[Prediction]) -> int:
    """The number of judge prompts that exceed the context window, if they are most; else 0."""
    count = sum(each.failure is Failure.DOES_NOT_FIT for each in predictions)
    return count if 2 * count > len(predictions) else 0


@dataclass
class Skill(Stateful):
    """Outcomes of the predictions of the last steps, for diagnostics."""

    outcomes: list[PredictionOutcome] = field(init=False, default_factory=list)
    flat: int = field(init=False, default=0)
    """Consecutive steps with flat predictions."""
    too_long: bool = field(init=False, default=False)
    """True if most judge prompts of the last step exceeded the context window."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.outcomes = [PredictionOutcome(*outcome) for outcome in self.outcomes]

    def add(
        self,
        predictions: Predictions,
        explored: set[str],
        groups: Sequence[Group],
        lesson: Lesson,
        step: int,
        selected: float,
    ) -> dict[str, float]:
        """Add a step, in which this fraction of candidates was selected; returns metrics.

        `explored` are the prompts of uniform slots.
        """
        uniform = [
            (group.prompt.id, v)
            for group in groups
            if group.prompt.id in explored and (v := group.variance) is not None
        ]
        self.outcomes = noted(self.outcomes, predictions.candidates, uniform, lesson.targets, step)
        metrics = prediction_metrics(predictions.candidates)
        metrics |= outcome_metrics(self.outcomes, selected)
        flat = metrics.get("judge/spread", FLAT) < FLAT
        self.flat = self.flat + 1 if flat else 0
        rewards = [group.mean for group in groups if group.prompt.id not in explored]
        if means := [reward for reward in rewards if reward is not None]:
            metrics["select/chosen_reward"] = float(np.mean(means))
        return metrics

    def notices(self, predictions: Sequence[Prediction]) -> list[str]:
        """Notices of useless predictions, in the first step of several in a row."""
        before, count = self.too_long, most_too_long(predictions)
        self.too_long = count > 0
        notices = spread_notice(self.flat)
        if count and not before:
            notices.append(
                f"{count} of {len(predictions)} judge prompts exceed the context window: lower "
                "curriculum.judge.examples"
            )
        return notices
