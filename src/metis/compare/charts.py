"""The figures of a comparison: accuracy over what it cost, and what the arms did on the way."""

from metis.compare.comparison import Comparison
from metis.compare.measures import Measured
from metis.report import accuracy, charts
from metis.report.panels import Axes, Figure, Line
from metis.report.subjects import Subject, standard_error
from metis.run.recorded import Series

CAPTION = (
    "Accuracy on prompts that are never trained on, at equal cost: the further left a curve "
    "reaches the dashed best accuracy of {baseline}, the more its curriculum saved. Means over "
    "runs, not smoothed; bands are one standard error. The best is the highest accuracy that the "
    "next test keeps."
)


def subjects(comparison: Comparison) -> list[Subject]:
    """The arms, the baseline first."""
    everyone = enumerate(comparison.everyone)
    return [Subject(arm.name, colour, arm.records) for colour, arm in everyone]


def figures(comparison: Comparison) -> list[Figure]:
    """Accuracy over each cost, then all that is drawn of runs over steps."""
    return [_accuracy(comparison), *charts.figures(subjects(comparison), comparison.timed)]


def _accuracy(comparison: Comparison) -> Figure:
    arms = [comparison.tested_alike(arm) for arm in comparison.everyone]
    best = arms[0].best[1].mean
    panels = tuple(
        Axes(
            accuracy.Y_LABEL,
            axis,
            tuple(_line(arm, colour, axis) for colour, arm in enumerate(arms)),
            whole=axis != "seconds",
            reference=best,
            reference_label=f"{comparison.baseline.name}'s best",
        )
        for axis in comparison.axes
        if all(arm.spent[axis].any() for arm in arms)
    )
    caption = CAPTION.format(baseline=comparison.baseline.name)
    return Figure(accuracy.NAME, accuracy.TITLE, caption, panels)


def _line(arm: Measured, colour: int, axis: str) -> Line:
    curve, cost = (runs.mean(axis=0).tolist() for runs in arm.runs(axis))
    band = standard_error(arm.accuracy)
    return Line(arm.name, colour, Series(tuple(cost), tuple(curve)), band=band)
