"""The figure of predictions beside outcomes, step by step: predicted v̂ and realised v."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from metis.report.calibration import CHOSEN, UNIFORM, ranked
from metis.report.curves import running_mean
from metis.report.outcomes import Outcome
from metis.report.panels import Axes, Figure, Line
from metis.report.subjects import Subject
from metis.run.recorded import Series

NAME = "forecast"
PREDICTED, REALISED = "predicted v̂", "realised v"
CAPTION = (
    "Mean variance v realised in each step (solid) and predicted for the same groups before they "
    "were rolled out (dashed). On uniform slots a good judge is right on average. Those it chose "
    "are partly chosen for being over-predicted: dashes above the line are expected there."
)


def figure(subjects: Sequence[Subject], window: int) -> Figure | None:
    """A panel for either kind of slot; None where no run has the logs for it."""
    judged = [subject for subject in subjects if subject.outcomes and not ranked(subject)]
    panels = []
    for title, uniform in ((UNIFORM, True), (CHOSEN, False)):
        lines = [
            line
            for subject in judged
            for line in _lines(subject, uniform, window, alone=len(subjects) == 1)
        ]
        if lines:
            panels.append(Axes(f"variance, {title}", "step", tuple(lines), cover=(0.0, 0.25)))
    return Figure(NAME, "Predictions over time", CAPTION, tuple(panels)) if panels else None


def _lines(subject: Subject, uniform: bool, window: int, alone: bool) -> list[Line]:
    some = [outcome for outcome in subject.outcomes if outcome.uniform == uniform]
    if not some:
        return []
    realised = running_mean(_by_step(some, "v"), window)
    predicted = running_mean(_by_step(some, "v_hat"), window)
    solid = Line(REALISED if alone else subject.label, subject.colour, realised)
    return [solid, replace(solid, label=PREDICTED, series=predicted, dashed=True)]


def _by_step(outcomes: Sequence[Outcome], name: str) -> Series:
    steps: dict[int, list[float]] = defaultdict(list)
    for outcome in outcomes:
        steps[outcome.step].append(getattr(outcome, name))
    places = sorted(steps)
    means = (sum(steps[step]) / len(steps[step]) for step in places)
    return Series(tuple(map(float, places)), tuple(means))
