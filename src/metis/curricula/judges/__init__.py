"""Judges by name: they predict, before any rollout, the reward variance of a prompt."""

from typing import Any

from metis.curricula.judges.direct import Direct
from metis.curricula.judges.gaussian_process import GaussianProcess
from metis.curricula.judges.history import History
from metis.curricula.judges.protocol import Failure, Judge, Lesson, Prediction, Predictions
from metis.curricula.judges.readout import Readout
from metis.curricula.judges.reason import Reason

JUDGES: dict[str, type[Judge[Any]]] = {
    "direct": Direct,
    "reason": Reason,
    "readout": Readout,
    "history": History,
    "gaussian_process": GaussianProcess,
}

__all__ = [
    "JUDGES",
    "Direct",
    "Failure",
    "GaussianProcess",
    "History",
    "Judge",
    "Lesson",
    "Prediction",
    "Predictions",
    "Readout",
    "Reason",
]
