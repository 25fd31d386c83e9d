"""The figures of a ranking: expected variance by rank, expected pass rates, and the calibration."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metis.rankings.measured import HeldOutPredictions
from metis.rankings.ranking import Ranking
from metis.report.outcomes import PredictedOutcome, binned
from metis.report.panels import Axes, Figure, Line
from metis.run.recorded import Series
from metis.signal import VARIANCE_MAX
from metis.surveys.facts import PromptOutcome

BINS = 10
POINTS = 200
EXPECTED, MEASURED, AVERAGE = "expected, all prompts", "measured, calibration", "mean of all"


def figures(
    ranking: Ranking, measured: HeldOutPredictions, outcomes: Sequence[PromptOutcome]
) -> list[Figure]:
    """The figures that there are numbers for."""
    drawn = [_distribution(ranking, outcomes)] if ranking.variances.size else []
    return [*drawn, *([_calibration(measured)] if len(measured) else [])]


def _distribution(ranking: Ranking, outcomes: Sequence[PromptOutcome]) -> Figure:
    variances = ranking.variances
    places = np.unique(np.linspace(0, len(variances) - 1, POINTS).astype(np.int64))
    ranked = Series(tuple((places + 1.0).tolist()), tuple(variances[places].tolist()))
    panels = [
        Axes(
            "expected variance",
            "rank",
            (Line(EXPECTED, 0, ranked),),
            cover=(0.0, VARIANCE_MAX),
            reference=float(variances.mean()),
            reference_label=AVERAGE,
        )
    ]
    rates = ranking.ranked_pass_rates
    about = "Expected variance of all prompts, best first"
    if rates.size:
        about += ", and their expected pass rates"
        means = np.array([np.mean(each.rewards) for each in outcomes if each.rewards])
        lines = (Line(EXPECTED, 0, _shares(rates)), Line(MEASURED, 1, _shares(means)))
        panels.append(
            Axes("share of prompts", "pass rate", lines, cover=(0.0,), percent=True, whole=False)
        )
    return Figure(
        "distribution",
        "Distribution",
        f"{about}. Expected values lie closer together than measured ones: a prediction averages "
        "over prompts that look alike, and what is measured has the noise of a few rollouts.",
        tuple(panels),
    )


def _shares(values: NDArray[np.float64]) -> Series:
    """A histogram of values from 0 to 1 as an outline."""
    counts, edges = np.histogram(values, bins=BINS, range=(0.0, 1.0))
    shares = counts / len(values)
    x = np.repeat(edges, 2)
    y = np.concatenate([[0.0], np.repeat(shares, 2), [0.0]])
    return Series(tuple(x.tolist()), tuple(y.tolist()))


def _calibration(measured: HeldOutPredictions) -> Figure:
    pairs = zip(measured.predicted.tolist(), measured.variances.tolist(), strict=True)
    bins = binned([PredictedOutcome(0, v_hat, v, True, True) for v_hat, v in pairs])
    line = Line(
        "measured",
        0,
        Series(tuple(each.v_hat for each in bins), tuple(each.v for each in bins)),
        tuple(each.error for each in bins),
        markers=True,
        notes=tuple(f"{each.groups:,} prompts" for each in bins),
    )
    ends = (0.0, *line.series.x, *(each.v + each.error for each in bins))
    return Figure(
        "calibration",
        "Calibration",
        "Measured variance of prompts that were rolled out, in bins of the variance predicted for "
        "them by a fit without them. A ranking that is right makes the points rise; on the dashed "
        "line predictions are right on average. Bars are one standard error.",
        (
            Axes(
                "measured variance",
                "predicted variance",
                (line,),
                cover=ends,
                across=ends,
                whole=False,
                diagonal="as predicted",
            ),
        ),
    )
