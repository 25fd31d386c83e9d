"""Figures of predictions: calibration in bins, and predictions and outcomes by step."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from metis.report.outcomes import PredictedOutcome, binned, halves
from metis.report.panels import Axes, Figure, Line, running_mean
from metis.report.subjects import Subject
from metis.run.recorded import Series

NAME = "calibration"
UNIFORM, CHOSEN, EXACT = "uniform slots", "chosen by the judge", "as predicted"
HALVES = ("first half", "second half")
CAPTION = (
    "Realised variance v of the groups rolled out, in bins of the variance v̂ predicted for them: "
    "a judge that ranks prompts right makes the curve rise. Uniform slots are a fair sample of all "
    "candidates; the others were chosen for their prediction."
)
FORECAST = "forecast"
PREDICTED, REALISED = "predicted v̂", "realised v"
FORECAST_CAPTION = (
    "Mean variance v realised in each step (solid) and predicted for the same groups before they "
    "were rolled out (dashed). On uniform slots a good judge is right on average. Those it chose "
    "are partly chosen for being over-predicted: dashes above the line are expected there."
)


def figure(subjects: Sequence[Subject]) -> Figure | None:
    """A panel for each half of the steps; None where no run has the logs for it."""
    parts = [halves(subject.outcomes) for subject in subjects]
    drawn = [_lines(subjects, [part[half] for part in parts]) for half in range(len(HALVES))]
    places, tops = _ends([line for lines in drawn for line in lines])
    diagonal = "" if any(map(ranked, subjects)) else EXACT
    panels = []
    for half, lines in enumerate(drawn):
        if not lines:
            continue
        title, note = _described(parts[0][half]) if len(subjects) == 1 else (HALVES[half], "")
        axes = Axes(
            f"realised v, {title}",
            "predicted v̂",
            tuple(sorted(lines, key=lambda line: line.dashed)),
            cover=(0.0, *tops, *places),
            whole=False,
            across=places,
            note=note,
            diagonal=diagonal,
        )
        panels.append(axes)
    bars = " Bars are one standard error." if len(subjects) == 1 else ""
    title = "Predictions against outcomes"
    return Figure(NAME, title, CAPTION + bars, tuple(panels)) if panels else None


def _lines(subjects: Sequence[Subject], parts: Sequence[Sequence[PredictedOutcome]]) -> list[Line]:
    """A curve for either kind of slot: two colours for one subject, solid and dashed for more."""
    lines = []
    for subject, part in zip(subjects, parts, strict=True):
        uniform = [outcome for outcome in part if outcome.uniform]
        chosen = [outcome for outcome in part if not outcome.uniform]
        if len(subjects) == 1:
            lines += [_line(UNIFORM, 0, uniform), _line(CHOSEN, 1, chosen)]
        else:
            dashed = replace(_line(CHOSEN, subject.colour, chosen), dashed=True, error=())
            solid = replace(_line(subject.label, subject.colour, uniform), error=())
            lines += [solid, dashed]
    return [line for line in lines if line.series.x]


def _line(label: str, colour: int, outcomes: Sequence[PredictedOutcome]) -> Line:
    bins = binned(outcomes)
    return Line(
        label,
        colour,
        Series(tuple(each.v_hat for each in bins), tuple(each.v for each in bins)),
        tuple(each.error for each in bins),
        markers=True,
        notes=tuple(_counted(each.groups) for each in bins),
    )


def _counted(groups: int) -> str:
    return "1 group" if groups == 1 else f"{groups:,} groups"


def _ends(lines: Sequence[Line]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The places of all curves, and their values with what the bars add: both panels show them."""
    places = [x for line in lines for x in line.series.x]
    values = [y for line in lines for y in line.series.y]
    errors = [error for line in lines for error in line.error or (0.0,) * len(line.series.y)]
    tops = [value + error for value, error in zip(values, errors, strict=True)]
    return tuple(places), tuple(tops)


def _described(outcomes: Sequence[PredictedOutcome]) -> tuple[str, str]:
    """The steps of some outcomes, and how many there are of either kind."""
    steps = sorted({outcome.step for outcome in outcomes})
    title = f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,}–{steps[-1]:,}"
    uniform = sum(outcome.uniform for outcome in outcomes)
    return title, f"{uniform:,} uniform, {len(outcomes) - uniform:,} chosen"


def ranked(subject: Subject) -> bool:
    """True if predictions are ranks (continuous rewards), not variances."""
    for run in subject.runs:
        curriculum = run.config.get("curriculum")
        judge = curriculum.get("judge") if isinstance(curriculum, dict) else None
        target = judge.get("target", "auto") if isinstance(judge, dict) else "auto"
        continuous = not all(outcome.binary for outcome in subject.outcomes)
        if target == "rank" or (target == "auto" and continuous):
            return True
    return False


def forecast_figure(subjects: Sequence[Subject], window: int) -> Figure | None:
    """A panel for either kind of slot; None where no run has the logs for it."""
    judged = [subject for subject in subjects if subject.outcomes and not ranked(subject)]
    panels = []
    for title, uniform in ((UNIFORM, True), (CHOSEN, False)):
        lines = [
            line
            for subject in judged
            for line in _over_time(subject, uniform, window, alone=len(subjects) == 1)
        ]
        if lines:
            panels.append(Axes(f"variance, {title}", "step", tuple(lines), cover=(0.0, 0.25)))
    return (
        Figure(FORECAST, "Predictions over time", FORECAST_CAPTION, tuple(panels))
        if panels
        else None
    )


def _over_time(subject: Subject, uniform: bool, window: int, alone: bool) -> list[Line]:
    some = [outcome for outcome in subject.outcomes if outcome.uniform == uniform]
    if not some:
        return []
    realised = running_mean(_by_step(some, "v"), window)
    predicted = running_mean(_by_step(some, "v_hat"), window)
    solid = Line(REALISED if alone else subject.label, subject.colour, realised)
    return [solid, replace(solid, label=PREDICTED, series=predicted, dashed=True)]


def _by_step(outcomes: Sequence[PredictedOutcome], name: str) -> Series:
    steps: dict[int, list[float]] = defaultdict(list)
    for outcome in outcomes:
        steps[outcome.step].append(getattr(outcome, name))
    places = sorted(steps)
    means = (sum(steps[step]) / len(steps[step]) for step in places)
    return Series(tuple(map(float, places)), tuple(means))
