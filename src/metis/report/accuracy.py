"""The figure of held-out accuracy of single runs, at equal time and at equal steps."""

from collections.abc import Sequence

from metis.report.panels import Axes, Figure, Line
from metis.report.subjects import Subject
from metis.run.recorded import Recorded, Series

NAME = "accuracy"
TITLE = "Held-out accuracy"
Y_LABEL = "held-out accuracy"


def figure(subjects: Sequence[Subject]) -> Figure | None:
    """A panel for time, where it is known, and one for steps; None where nothing was tested."""
    runs = [run for subject in subjects for run in subject.runs]
    if not any(run.evaluations for run in runs):
        return None
    by_step, by_time = [], []
    unit, unit_name = time_unit(runs)
    for colour, run in enumerate(runs):
        rows = run.evaluations
        by_step.append(_tested(run, colour, [(row.step, row.accuracy, row.stderr) for row in rows]))
        timed = [(r.elapsed / unit, r.accuracy, r.stderr) for r in rows if r.elapsed is not None]
        by_time.append(_tested(run, colour, timed))
    panels = [Axes(Y_LABEL, "step", tuple(line for line in by_step if line.series.x))]
    if any(run.timings for run in runs):
        lines = tuple(line for line in by_time if line.series.x)
        panels.insert(0, Axes(Y_LABEL, f"elapsed {unit_name}", lines, whole=False))
    bars = " Bars are one standard error." if any(line.error for line in by_step) else ""
    caption = (
        "Accuracy on prompts that are never trained on, at equal time and at equal steps (testing "
        "itself is not timed): the earlier a curve is high, the more its curriculum saved."
    )
    return Figure(NAME, TITLE, caption + bars, tuple(panels))


def time_unit(runs: Sequence[Recorded]) -> tuple[float, str]:
    """The unit that suits the longest run: its seconds, and its name."""
    longest = max(run.elapsed for run in runs)
    simulated = "simulated " if all(run.simulated for run in runs) else ""
    for seconds, name, enough in ((3600.0, "hours", 3 * 3600.0), (60.0, "minutes", 1200.0)):
        if longest >= enough:
            return seconds, simulated + name
    return 1.0, simulated + "seconds"


def _tested(run: Recorded, colour: int, rows: Sequence[tuple[float, float, float | None]]) -> Line:
    series = Series(tuple(float(x) for x, _, _ in rows), tuple(y for _, y, _ in rows))
    has_errors = any(error is not None for _, _, error in rows)
    error = tuple(error or 0.0 for _, _, error in rows) if has_errors else ()
    return Line(run.label, colour, series, error, markers=True)
