"""The judge's diagnostics: what it says of the candidates, and what became of its predictions.

Outcomes are kept from uniform slots only, which are a fair sample of the candidates.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.curricula.judge import diagnostics
from metis.curricula.judge.judgment import Scored, Verdict
from metis.curricula.judge.memory import quantile
from metis.curricula.judge.reply import Failure
from metis.curricula.judge.scale import GRID
from metis.signal import VARIANCE_MAX

FLAT, FLAT_STEPS = 0.02, 5
"""A spread of predictions, in log-odds, that ranks nothing; and for how many steps to wait."""

DIAGNOSED = 128
"""Outcomes of uniform slots that the diagnostics are made of, at least."""

CLIMATOLOGY_STEPS = 10
"""The reference a judge must beat is the mean outcome of this many steps."""


class Outcome(NamedTuple):
    """A prediction and what happened; `target` is what the judge was scored against."""

    step: int
    v_hat: float
    rank: float
    """Quantile of the prediction among those for all candidates of its step."""
    v: float
    target: float
    climatology: float | None


def climatology(outcomes: Sequence[Outcome], step: int) -> float | None:
    """Mean target of the last steps, the prediction of somebody who reads no prompts."""
    recent = [outcome.target for outcome in outcomes if outcome.step >= step - CLIMATOLOGY_STEPS]
    return float(np.mean(recent)) if recent else None


def noted(
    outcomes: list[Outcome], scored: Sequence[Scored], verdicts: Sequence[Verdict], step: int
) -> list[Outcome]:
    """With what a step adds: predictions for uniform slots, and what became of them."""
    reference = climatology(outcomes, step)
    among = [verdict.v_hat for verdict in verdicts if verdict.v_hat is not None]
    new = [
        Outcome(step, v_hat, quantile(v_hat, among), item.v, item.target, reference)
        for item in scored
        if item.explored and (v_hat := item.verdict.v_hat) is not None
    ]
    return trim(outcomes + new, DIAGNOSED)


def trim(outcomes: list[Outcome], keep: int) -> list[Outcome]:
    """Whole steps from the end, as few as hold at least `keep` outcomes."""
    if len(outcomes) <= keep:
        return outcomes
    first = outcomes[-keep].step
    return [outcome for outcome in outcomes if outcome.step >= first]


def outcome_metrics(outcomes: Sequence[Outcome], share: float) -> dict[str, float]:
    """The judge on its exploration slots; what is undefined is left out."""
    v_hat, v = [o.v_hat for o in outcomes], [o.v for o in outcomes]
    ranked = [o.rank for o in outcomes]
    scored = [o for o in outcomes if o.climatology is not None]
    values: dict[str, float | None] = {
        "judge/outcomes": float(len(outcomes)),
        **rank_correlation(outcomes),
        "judge/pearson": diagnostics.pearson(v_hat, v),
        "judge/lift": diagnostics.lift(ranked, v, share),
        "judge/auroc_informative": diagnostics.auroc_informative(ranked, v),
        "judge/skill": diagnostics.skill(
            [o.v_hat for o in scored],
            [o.target for o in scored],
            [o.climatology for o in scored if o.climatology is not None],
        ),
    }
    for row in diagnostics.reliability(v_hat, v, GRID):
        values[f"judge/reliability_{row.v_hat:.2f}"] = row.mean_v
        values[f"judge/reliability_count_{row.v_hat:.2f}"] = float(row.outcomes)
    return {name: value for name, value in values.items() if value is not None}


def rank_correlation(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Spearman of outcomes and predictions, and its standard error by chance.

    Predictions are ranked within their step: the drift of all of them over time is no skill.
    """
    correlation = diagnostics.spearman([o.rank for o in outcomes], [o.v for o in outcomes])
    if correlation is None:
        return {}
    error = 1 / math.sqrt(len(outcomes) - 1)
    return {"judge/spearman": correlation, "judge/spearman_error": error}


def verdict_metrics(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The judge on all candidates: what it says, and how often it says nothing usable."""
    if not verdicts:
        return {}
    failures = Counter(verdict.failure for verdict in verdicts if verdict.failure)
    v_hat = np.array([verdict.v_hat for verdict in verdicts if verdict.v_hat is not None])
    metrics = {"judge/failure_rate": failures.total() / len(verdicts)}
    for kind in Failure:
        name = kind.value.replace(" ", "_")
        metrics[f"judge/failure_{name}"] = failures[kind] / len(verdicts)
    if v_hat.size:
        metrics["judge/v_hat_mean"] = float(v_hat.mean())
        metrics["judge/v_hat_std"] = float(v_hat.std())
        metrics["judge/v_hat_distinct"] = float(np.unique(v_hat).size)
        metrics["judge/spread"] = spread_in_log_odds(v_hat)
    rows = [verdict.distribution for verdict in verdicts if verdict.distribution is not None]
    if rows:
        table = np.stack(rows)
        entropies = -np.sum(table * np.log(np.maximum(table, 1e-300)), axis=1)
        metrics["judge/entropy"] = float(entropies.mean())
    likeliest = [verdict.likeliest for verdict in verdicts if verdict.likeliest is not None]
    if likeliest:
        metrics["judge/at_maximum"] = float(np.mean(np.array(likeliest) >= VARIANCE_MAX))
    written = [verdict.likeliest for verdict in verdicts if verdict.completion]
    if named := [value for value in written if value is not None]:
        on_grid = np.isclose(np.array(named)[:, None], GRID, rtol=1e-9, atol=0.0).any(axis=1)
        metrics["judge/off_grid"] = float(np.mean(~on_grid))
    return metrics


def spread_in_log_odds(v_hat: NDArray[np.float64]) -> float:
    """Standard deviation of logit(4 v_hat), which does not shrink as predictions near 0."""
    odds = np.clip(v_hat / VARIANCE_MAX, 1e-9, 1 - 1e-9)
    return float(np.std(np.log(odds) - np.log1p(-odds)))


def spread_notice(flat: int) -> list[str]:
    """A sentence for the person watching, when the predictions have been alike for some steps."""
    if flat != FLAT_STEPS:
        return []
    return [
        f"the judge has said nearly the same of all candidates for {FLAT_STEPS} steps (spread "
        f"below {FLAT} in log-odds): what it chooses is as good as random"
    ]


def length_notice(verdicts: Sequence[Verdict]) -> list[str]:
    """A sentence for the person watching, when most candidates could not be judged at all."""
    count = sum(verdict.failure is Failure.DOES_NOT_FIT for verdict in verdicts)
    if 2 * count <= len(verdicts):
        return []
    return [
        f"{count} of {len(verdicts)} judge prompts do not fit the context of the model: fewer "
        "curriculum.examples make them shorter"
    ]
