"""The calibration: held-out predictions of a readout against measured outcomes."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metis.curricula.judges.readout import FittedReadout
from metis.curricula.judges.regressions import Outcomes
from metis.curricula.judges.skill import lift, spearman
from metis.run.statistics import NORMAL
from metis.signal import INFORMATIVE, VARIANCE_MAX

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOutPredictions:
    """Prompts of the calibration that were predicted by a fit without them."""

    predicted: Floats
    variances: Floats
    means: Floats
    folds: Floats

    @classmethod
    def of(cls, readout: FittedReadout, outcomes: Outcomes) -> "HeldOutPredictions":
        predicted = readout.held_out.predicted
        known = ~np.isnan(predicted)
        columns = (outcomes.variances, outcomes.means, outcomes.folds)
        clipped = np.clip(predicted[known], 0.0, VARIANCE_MAX)
        return cls(clipped, *(column[known] for column in columns))

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def spearman(self) -> float | None:
        """Rank correlation within folds, averaged: fits of different folds are not compared."""
        parts = []
        for fold in np.unique(self.folds):
            mine = self.folds == fold
            value = spearman(self.predicted[mine].tolist(), self.variances[mine].tolist())
            if value is not None:
                parts.append((value, int(mine.sum()) - 1))
        whole = sum(size for _, size in parts)
        return sum(value * size for value, size in parts) / whole if whole else None

    @property
    def error(self) -> float:
        """About the standard error of the rank correlation."""
        return 1 / math.sqrt(max(1, len(self) - len(np.unique(self.folds))))

    @property
    def above_chance(self) -> bool:
        """True where a 95% interval of the rank correlation is above 0."""
        value = self.spearman
        return value is not None and value - NORMAL * self.error > 0

    def lift(self, kept: float) -> float | None:
        """Mean variance of the share predicted highest, over the mean of all."""
        return lift(self.predicted.tolist(), self.variances.tolist(), kept)

    def informative(self, kept: float) -> float:
        """The share of prompts with mixed rewards among those predicted highest."""
        size = max(1, round(kept * len(self)))
        best = np.argsort(-self.predicted, kind="stable")[:size]
        return float(np.mean(self.variances[best] > INFORMATIVE))
