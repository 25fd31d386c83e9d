"""What became of the judge's predictions: its diagnostics, and the guard that relies on them.

Outcomes are kept from exploration slots only, which are a fair sample of the candidates.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis import diagnostics
from metis.curricula.judge import Failure
from metis.curricula.judge_prompt import GRID
from metis.curricula.verdict import Verdict

CLIMATOLOGY_STEPS = 10
"""The reference a judge must beat is the mean outcome of this many steps."""


class Outcome(NamedTuple):
    """A prediction and what happened; `target` is what the judge was scored against."""

    step: int
    v_hat: float
    v: float
    target: float
    climatology: float | None


def climatology(outcomes: Sequence[Outcome], step: int) -> float | None:
    """Mean target of the last steps, the prediction of somebody who reads no prompts."""
    recent = [outcome.target for outcome in outcomes if outcome.step >= step - CLIMATOLOGY_STEPS]
    return float(np.mean(recent)) if recent else None


def trim(outcomes: list[Outcome], keep: int) -> list[Outcome]:
    """Whole steps from the end, as few as hold at least `keep` outcomes."""
    if len(outcomes) <= keep:
        return outcomes
    first = outcomes[-keep].step
    return [outcome for outcome in outcomes if outcome.step >= first]


def rank_skill(outcomes: Sequence[Outcome], needed: int) -> float | None:
    """Spearman of prediction and outcome; None while there are fewer than `needed`."""
    if len(outcomes) < needed:
        return None
    return diagnostics.spearman([o.v_hat for o in outcomes], [o.v for o in outcomes])


def outcome_metrics(outcomes: Sequence[Outcome], share: float) -> dict[str, float]:
    """The judge on its exploration slots; what is undefined is left out."""
    v_hat, v = [o.v_hat for o in outcomes], [o.v for o in outcomes]
    scored = [o for o in outcomes if o.climatology is not None]
    values = {
        "judge/outcomes": float(len(outcomes)),
        "judge/spearman": diagnostics.spearman(v_hat, v),
        "judge/pearson": diagnostics.pearson(v_hat, v),
        "judge/lift": diagnostics.lift(v_hat, v, share),
        "judge/auroc_informative": diagnostics.auroc_informative(v_hat, v),
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
    likeliest = [verdict.likeliest for verdict in verdicts if verdict.likeliest is not None]
    if likeliest:
        named = np.array(likeliest)
        on_grid = np.isclose(named[:, None], GRID, rtol=1e-9, atol=0.0).any(axis=1)
        metrics["judge/at_maximum"] = float(np.mean(named >= GRID[-1]))
        metrics["judge/off_grid"] = float(np.mean(~on_grid))
    return metrics


def length_notice(verdicts: Sequence[Verdict]) -> list[str]:
    """A sentence for the person watching, when most candidates could not be judged at all."""
    count = sum(verdict.failure is Failure.DOES_NOT_FIT for verdict in verdicts)
    if 2 * count <= len(verdicts):
        return []
    return [
        f"{count} of {len(verdicts)} judge prompts do not fit the context of the model: fewer "
        "curriculum.examples make them shorter"
    ]


def guard_notice(guarded: bool, before: bool | None, skill: float | None, needed: int) -> list[str]:
    """A sentence for the person watching, when the guard closes or opens."""
    if guarded == before:
        return []
    if not guarded:
        return [
            f"the judge ranks better than chance (Spearman {skill:.2f}): it selects from here on"
        ]
    if before is None:
        return [f"the judge is on trial: selecting uniformly until {needed} outcomes show skill"]
    shown = "undefined" if skill is None else f"{skill:.2f}"
    return [f"the judge ranks no better than chance (Spearman {shown}): selecting uniformly"]
