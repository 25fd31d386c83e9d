"""The subjects of a report: each has a colour, and is a run or the runs of a variant over seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from metis.report.outcomes import PredictedOutcome, read_outcomes
from metis.report.panels import Line, running_mean
from metis.run.recorded import Recorded, Series


@dataclass(frozen=True)
class Subject:
    """Runs that are drawn as one curve: their mean, with a band of one standard error."""

    label: str
    colour: int
    runs: tuple[Recorded, ...]

    @cached_property
    def outcomes(self) -> list[PredictedOutcome]:
        """Predictions and outcomes of all groups of its runs."""
        return [outcome for run in self.runs for outcome in read_outcomes(run)]

    def has(self, metric: str) -> bool:
        return any(run.has(metric) for run in self.runs)

    def line(self, of: Callable[[Recorded], Series], window: int = 1) -> Line:
        """A curve over steps: of one run as it is, with a running mean; of several their mean."""
        curves = [series for run in self.runs if (series := of(run)).x]
        if len(self.runs) == 1 or not curves:
            return Line(self.label, self.colour, curves[0] if curves else Series(), window=window)
        mean, band = averaged([running_mean(series, window) for series in curves])
        return Line(self.label, self.colour, mean, band=band)

    def mean(self, of: Callable[[Recorded], float | None]) -> float | None:
        """The mean of a number over the runs that have it."""
        values = [value for run in self.runs if (value := of(run)) is not None]
        return math.fsum(values) / len(values) if values else None


def each(runs: Sequence[Recorded]) -> list[Subject]:
    """Every run as a subject of its own."""
    return [Subject(run.label, colour, (run,)) for colour, run in enumerate(runs)]


def averaged(curves: Sequence[Series]) -> tuple[Series, tuple[float, ...]]:
    """The mean of curves at the places that all of them have, and its standard error there."""
    places = sorted(set.intersection(*(set(curve.x) for curve in curves)))
    rows = [dict(zip(*curve, strict=True)) for curve in curves]
    values = np.array([[row[place] for place in places] for row in rows])
    return Series(tuple(places), tuple(values.mean(axis=0).tolist())), standard_error(values)


def standard_error(values: "np.typing.NDArray[np.float64]") -> tuple[float, ...]:
    """The standard error of the mean over rows, by column; none of a single row."""
    if len(values) < 2:
        return ()
    return tuple((values.std(axis=0, ddof=1) / math.sqrt(len(values))).tolist())
