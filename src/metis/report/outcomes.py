"""Predicted and realised variance: the judge's v̂ of the groups that were rolled out, and their v.

Joined from the logs of a run; folders without those logs, as evidence often is, have none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis.core.importing import is_import_string
from metis.curricula.judges.skill import ranks
from metis.run import folder as run_folder
from metis.run.recorded import Recorded, is_number
from metis.signal import variance

UNIFORM = ("explore", "trial", "guard")
"""Reasons of a uniform draw; the last is that of runs made before there were trials."""

MOST, LEAST, APART = 8, 5, 20
"""Bins there are at most, outcomes a bin has on average at least, and into how many levels the
range of predictions is cut: those on one level are not worth telling apart."""


class PredictedOutcome(NamedTuple):
    """The prediction for a group, and the population variance of its rewards."""

    step: int
    v_hat: float
    v: float
    uniform: bool
    binary: bool


class Bin(NamedTuple):
    """Mean prediction and mean outcome of some groups, with the standard error of the latter."""

    v_hat: float
    v: float
    error: float
    groups: int


def read_outcomes(run: Recorded) -> list[PredictedOutcome]:
    """All groups of a run that the judge had a prediction for."""
    if not run.series("judge/v_hat_mean").x:  # scores of other curricula are no variances
        return []
    chosen = run_folder.read_log(run.folder, "judgments", optional=True, having=b'"chosen": true')
    scored = not _own_judge(run)
    judged = {
        (row["step"], row.get("prompt")): (row, v_hat)
        for row in chosen
        if is_number(v_hat := row.get("v_hat", row.get("score") if scored else None))
    }
    outcomes = []
    for row in run_folder.log_rows(run.folder, "rollouts", optional=True) if judged else ():
        judgment, v_hat = judged.get((row["step"], row.get("prompt")), ({}, None))
        rewards = row.get("rewards", [])
        if v_hat is None or len(rewards) < 2:
            continue
        uniform, binary = judgment.get("reason") in UNIFORM, set(rewards) <= {0, 1}
        outcomes.append(PredictedOutcome(row["step"], v_hat, variance(rewards), uniform, binary))
    return outcomes


def _own_judge(run: Recorded) -> bool:
    """True if a user's judge predicted: its score, all that older logs have, is no variance."""
    curriculum = run.config.get("curriculum")
    judge = curriculum.get("judge") if isinstance(curriculum, dict) else None
    name = judge.get("name", "") if isinstance(judge, dict) else judge
    return is_import_string(str(name or ""))


def halves(
    outcomes: Sequence[PredictedOutcome],
) -> tuple[list[PredictedOutcome], list[PredictedOutcome]]:
    """The outcomes of the first and of the second half of the steps."""
    steps = [outcome.step for outcome in outcomes] or [0]
    middle = (min(steps) + max(steps)) / 2
    return [o for o in outcomes if o.step <= middle], [o for o in outcomes if o.step > middle]


def binned(outcomes: Sequence[PredictedOutcome]) -> list[Bin]:
    """Bins of about equal size by prediction; predictions on one level stay together."""
    if not outcomes:
        return []
    v_hat, v = np.array([o.v_hat for o in outcomes]), np.array([o.v for o in outcomes])
    count = min(MOST, max(1, len(v) // LEAST))
    levels = np.round((v_hat - v_hat.min()) / (np.ptp(v_hat) or 1.0) * APART)
    places = np.floor((ranks(levels.tolist()) + 0.5) / len(v) * count)
    bins = []
    for place in np.unique(places):
        inside = places == place
        groups = int(inside.sum())
        error = float(v[inside].std(ddof=1) / np.sqrt(groups)) if groups > 1 else 0.0
        bins.append(Bin(float(v_hat[inside].mean()), float(v[inside].mean()), error, groups))
    return bins
