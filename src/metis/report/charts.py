"""The figures of the METIS paper as data: which curves, on which axes, and what to look for."""

from collections.abc import Sequence
from dataclasses import dataclass

from metis.report import calibration
from metis.report.curves import Recorded, Series
from metis.report.panels import Axes, Bar, Bars, Figure, Line
from metis.run import metrics as explained


@dataclass(frozen=True)
class Metric:
    """A metric and the way it is drawn; `dashed` names another one to draw beside it.

    unless    a metric that replaces this one in runs that have it
    error     a metric: what this one is off the reference by chance, in one standard error
    z         a metric: this one in such errors, where the error itself is not recorded
    """

    name: str
    y_label: str
    dashed: str = ""
    dashed_label: str = ""
    smooth: bool = True
    cover: tuple[float, ...] = ()
    percent: bool = False
    reference: float | None = None
    reference_label: str = ""
    unless: str = ""
    error: str = ""
    z: str = ""


@dataclass(frozen=True)
class PerStep:
    """A figure of metrics against steps."""

    name: str
    title: str
    caption: str
    metrics: tuple[Metric, ...]


PER_STEP = (
    PerStep(
        "advantage",
        "Learning signal",
        "Mean size of the group-relative advantage |A|: the higher it stays, the more each step "
        "has to learn from.",
        (Metric("batch/advantage", "mean |A|", cover=(0.0,)),),
    ),
    PerStep(
        "reward",
        "Rollout reward",
        "Mean reward of the prompts trained on: a binary reward teaches most at the dashed line, "
        "so a good curriculum is drawn to it from either side.",
        (
            Metric(
                "batch/reward",
                "mean reward",
                reference=0.5,
                reference_label="0.5, most informative",
            ),
        ),
    ),
    PerStep(
        "judge_reward",
        "Judge reward",
        "R_judge, how near the predictions came to the variance that was realised: it rises while "
        "the judge improves, above its own baseline (dashed) where it has one.",
        (Metric("judge/reward", "R_judge", "judge/baseline", "baseline"),),
    ),
    PerStep(
        "failures",
        "Judgments that failed",
        "Share of judgments from which no value could be read: it should fall to zero and stay.",
        (Metric("judge/failure_rate", "failure rate", cover=(0.0, 0.05), percent=True),),
    ),
    PerStep(
        "predictions",
        "Predicted variance",
        "Mean and spread (standard deviation) of the predicted variance v̂ over all candidates: a "
        "spread that shrinks to zero means that the judge has stopped telling prompts apart.",
        (
            Metric("judge/v_hat_mean", "mean of v̂", cover=(0.0,)),
            Metric("judge/spread", "spread of v̂, in log-odds", cover=(0.0,)),
            Metric("judge/v_hat_std", "spread of v̂", cover=(0.0,), unless="judge/spread"),
        ),
    ),
    PerStep(
        "skill",
        "Skill of the judge",
        "Measured over the latest steps on slots that are drawn uniformly: above the dashed lines "
        "the judge does better than chance.",
        (
            Metric(
                "judge/spearman",
                "rank correlation of v̂ with v",
                smooth=False,
                reference=0.0,
                reference_label="chance",
                error="judge/spearman_error",
            ),
            Metric(
                "judge/realised_lift",
                "realised lift: v chosen − v uniform",
                smooth=False,
                reference=0.0,
                reference_label="chance",
                z="judge/realised_lift_z",
            ),
            Metric(
                "judge/lift",
                "lift: v of the top predictions / mean v",
                smooth=False,
                reference=1.0,
                reference_label="chance",
                unless="judge/realised_lift",
            ),
        ),
    ),
)

LUCK = " What lies within the grey may be luck."

NAMES = ("accuracy", *(spec.name for spec in PER_STEP), calibration.NAME, "overhead")
"""The names of all figures there can be."""


def figures(runs: Sequence[Recorded]) -> list[Figure]:
    """All figures that at least one run has data for."""
    per_step = [_per_step(spec, runs) for spec in PER_STEP]
    found = [_accuracy(runs), *per_step, calibration.figure(runs), _overhead(runs)]
    return [figure for figure in found if figure is not None]


def smoothing(runs: Sequence[Recorded]) -> int:
    """Steps that a running mean spans: a twentieth of the longest run, at most 51, odd."""
    longest = max(run.steps for run in runs)
    return 1 if longest < 20 else 2 * min(25, max(2, longest // 40)) + 1


def time_unit(runs: Sequence[Recorded]) -> tuple[float, str]:
    """The unit that suits the longest run: its seconds, and its name."""
    longest = max(run.elapsed for run in runs)
    simulated = "simulated " if all(run.simulated for run in runs) else ""
    for seconds, name, enough in ((3600.0, "hours", 3 * 3600.0), (60.0, "minutes", 1200.0)):
        if longest >= enough:
            return seconds, simulated + name
    return 1.0, simulated + "seconds"


def _accuracy(runs: Sequence[Recorded]) -> Figure | None:
    if not any(run.evaluations for run in runs):
        return None
    by_step, by_time = [], []
    unit, unit_name = time_unit(runs)
    for colour, run in enumerate(runs):
        rows = run.evaluations
        by_step.append(_tested(run, colour, [(row.step, row.accuracy, row.stderr) for row in rows]))
        timed = [(r.elapsed / unit, r.accuracy, r.stderr) for r in rows if r.elapsed is not None]
        by_time.append(_tested(run, colour, timed))
    panels = [Axes("held-out accuracy", "step", tuple(line for line in by_step if line.series.x))]
    if any(run.timings for run in runs):
        lines = tuple(line for line in by_time if line.series.x)
        panels.insert(0, Axes("held-out accuracy", f"elapsed {unit_name}", lines, whole=False))
    bars = " Bars are one standard error." if any(line.error for line in by_step) else ""
    caption = (
        "Accuracy on prompts that are never trained on, at equal time and at equal steps (testing "
        "itself is not timed): the earlier a curve is high, the more its curriculum saved."
    )
    return Figure("accuracy", "Held-out accuracy", caption + bars, tuple(panels))


def _tested(run: Recorded, colour: int, rows: Sequence[tuple[float, float, float | None]]) -> Line:
    series = Series(tuple(float(x) for x, _, _ in rows), tuple(y for _, y, _ in rows))
    known = any(error is not None for _, _, error in rows)
    error = tuple(error or 0.0 for _, _, error in rows) if known else ()
    return Line(run.label, colour, series, error, markers=True)


def _per_step(spec: PerStep, runs: Sequence[Recorded]) -> Figure | None:
    panels = [_axes(metric, runs) for metric in spec.metrics]
    drawn = tuple(panel for panel in panels if panel.lines)
    luck = LUCK if any(panel.chance.x for panel in drawn) else ""
    return Figure(spec.name, spec.title, spec.caption + luck, drawn) if drawn else None


def _axes(metric: Metric, runs: Sequence[Recorded]) -> Axes:
    window = smoothing(runs) if metric.smooth else 1
    lines = []
    for colour, run in enumerate(runs):
        series = Series() if run.has(metric.unless) else run.series(metric.name)
        beside = run.series(metric.dashed) if metric.dashed else Series()
        if series.x:
            lines.append(Line(run.label, colour, series, window=window))
        if series.x and beside.x:
            lines.append(Line(metric.dashed_label, colour, beside, dashed=True))
    judged = metric.error or metric.z
    chance = _chance(metric, runs[0]) if len(runs) == 1 else Series()
    spans = runs[0].trials if len(runs) == 1 and judged else []
    return Axes(
        metric.y_label,
        "step",
        tuple(lines),
        metric.cover,
        metric.percent,
        metric.reference,
        metric.reference_label,
        chance=chance,
        chance_label="two standard errors around chance" if chance.x else "",
        spans=tuple(spans),
        spans_label="on trial: half of the batch is uniform" if spans else "",
        meaning=_meaning(metric.name),
    )


def _meaning(name: str) -> str:
    entry = explained.metric(name)
    return f"{name} ({entry.unit}): {entry.meaning.replace('`', '')}" if entry else ""


def _chance(metric: Metric, run: Recorded) -> Series:
    """Two standard errors of a metric that the judge's luck explains, where they are known."""
    if metric.error:
        errors = run.series(metric.error)
        return Series(errors.x, tuple(2 * error for error in errors.y))
    values, known = dict(zip(*run.series(metric.name), strict=True)), run.series(metric.z)
    rows = [(x, abs(2 * values[x] / z)) for x, z in zip(*known, strict=True) if z and x in values]
    return Series(tuple(x for x, _ in rows), tuple(distance for _, distance in rows))


def _overhead(runs: Sequence[Recorded]) -> Figure | None:
    timed = [(colour, run) for colour, run in enumerate(runs) if run.phases]
    if not timed:
        return None
    simulated = "simulated " if all(run.simulated for run in runs) else ""
    bars = []
    for _, run in timed:
        steps = len(run.timings)
        share = run.judge_share
        note = "no judge" if share is None else f"judge {share:.1%}"
        parts = {phase: seconds / steps for phase, seconds in run.phases.items()}
        bars.append(Bar(run.label, f"{run.elapsed / steps:.3g} s · {note}", parts))
    stacked = Bars("mean time of a step, the first included", f"{simulated}seconds", tuple(bars))
    judged = [(colour, run) for colour, run in timed if run.judge_share is not None]
    window = smoothing(runs)
    if judged:
        lines = [Line(r.label, c, r.judge_shares(), window=window) for c, r in judged]
        panel = Axes("judge's share of a step", "step", tuple(lines), (0.0,), percent=True)
    else:
        lines = [Line(r.label, c, r.step_seconds(), window=window) for c, r in timed]
        panel = Axes(f"{simulated}seconds of a step", "step", tuple(lines), (0.0,))
    caption = (
        "Where the time of a step goes: what judging costs has to be less than what it saves in "
        "rollouts."
    )
    return Figure("overhead", "Time and overhead", caption, (stacked, panel))
