"""Skill of a judge: pure functions of predictions and outcomes.

Meaningful on exploration slots only: on prompts that were chosen for their predictions, every one
of these is restricted in range and flattering. Each returns None where it is undefined.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.signal import INFORMATIVE

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


def lift(v_hat: Numbers, v: Numbers, share: float) -> float | None:
    """Mean outcome of the `share` of prompts predicted highest, over the mean of all.

    Prompts tied at the cut count in proportion, as a random tie-break would take them.
    """
    total = float(np.mean(v)) if v else 0.0
    if total == 0:
        return None
    predictions, outcomes = np.asarray(v_hat, dtype=np.float64), np.asarray(v, dtype=np.float64)
    size = max(1, round(share * len(outcomes)))
    cut = np.sort(predictions)[::-1][size - 1]
    above, tied = predictions > cut, predictions == cut
    part = (size - above.sum()) / tied.sum()
    return float((outcomes[above].sum() + part * outcomes[tied].sum()) / size / total)


def auroc_informative(v_hat: Numbers, v: Numbers) -> float | None:
    """AUROC: how likely an informative prompt is predicted above a zero-variance one."""
    informative = np.asarray(v, dtype=np.float64) > INFORMATIVE
    positives, negatives = int(informative.sum()), int((~informative).sum())
    if positives == 0 or negatives == 0:
        return None
    rank_sum = float(ranks(v_hat)[informative].sum())
    return (rank_sum - positives * (positives - 1) / 2) / (positives * negatives)


def calibration_error(v_hat: Numbers, v: Numbers, bins: int = 10) -> float | None:
    """Expected calibration error, over bins of as many predictions each.

    Equal predictions are not kept together: they are cut in the order given.
    """
    if not v:
        return None
    predictions, outcomes = np.asarray(v_hat, dtype=np.float64), np.asarray(v, dtype=np.float64)
    order = np.argsort(predictions, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    gaps = [abs(predictions[part].mean() - outcomes[part].mean()) * len(part) for part in parts]
    return float(sum(gaps) / len(order))


class Reliability(NamedTuple):
    """The outcomes of the prompts for which one value was predicted."""

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
