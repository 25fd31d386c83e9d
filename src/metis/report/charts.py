"""The figures of the METIS paper as data: which curves, on which axes, and what to look for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from metis.report import accuracy, calibration, forecast, occupancy
from metis.report.panels import Axes, Bar, Bars, Figure
from metis.report.subjects import Subject
from metis.run import metrics as explained
from metis.run.recorded import Recorded, Series


@dataclass(frozen=True)
class Metric:
    """A metric and the way it is drawn; `dashed` names another one to draw beside it.

    over      a metric that this one is drawn as a share of
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
    over: str = ""
    unless: str = ""
    error: str = ""
    z: str = ""

    def of(self, run: Recorded) -> Series:
        """Its values in a run."""
        return run.share(self.name, self.over) if self.over else run.series(self.name)


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
        "frontier",
        "Competence frontier",
        "Mean reward of the rollouts trained on: a binary reward teaches most at the dashed line, "
        "so a good curriculum is drawn to it: from below on a hard pool, from above on an easy "
        "one.",
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
        "waste",
        "Waste",
        "Share of the generated tokens that are in groups without variance, or in rollouts that "
        "failed: they cost time and teach nothing.",
        (
            Metric(
                "rollout/wasted",
                "wasted tokens",
                over="rollout/tokens",
                cover=(0.0, 1.0),
                percent=True,
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

NAMES = (
    accuracy.NAME,
    *(spec.name for spec in PER_STEP),
    *(calibration.NAME, forecast.NAME, occupancy.NAME),
    "overhead",
)
"""The names of all figures there can be."""


def figures(subjects: Sequence[Subject], timed: bool = True) -> list[Figure]:
    """All figures over steps that at least one run has data for; with seconds, if `timed`."""
    window = smoothing([run for subject in subjects for run in subject.runs])
    candidates = [
        *(_per_step(spec, subjects, window) for spec in PER_STEP),
        calibration.figure(subjects),
        forecast.figure(subjects, window),
        occupancy.figure(subjects, window),
        _overhead(subjects, window) if timed else None,
    ]
    return [figure for figure in candidates if figure is not None]


def smoothing(runs: Sequence[Recorded]) -> int:
    """Steps that a running mean spans: a twentieth of the longest run, at most 51, odd."""
    longest = max(run.steps for run in runs)
    return 1 if longest < 20 else 2 * min(25, max(2, longest // 40)) + 1


def _per_step(spec: PerStep, subjects: Sequence[Subject], window: int) -> Figure | None:
    panels = [_axes(metric, subjects, window) for metric in spec.metrics]
    drawn = tuple(panel for panel in panels if panel.lines)
    luck = LUCK if any(panel.chance.x for panel in drawn) else ""
    return Figure(spec.name, spec.title, spec.caption + luck, drawn) if drawn else None


def _axes(metric: Metric, subjects: Sequence[Subject], window: int) -> Axes:
    lines = []
    for subject in subjects:
        if subject.has(metric.unless):
            continue
        line = subject.line(metric.of, window if metric.smooth else 1)
        beside = subject.line(lambda run: run.series(metric.dashed))
        if line.series.x:
            lines.append(line)
        if line.series.x and beside.series.x:
            lines.append(replace(beside, label=metric.dashed_label, dashed=True, band=()))
    judged = metric.error or metric.z
    lone = subjects[0].runs[0] if len(subjects) == len(subjects[0].runs) == 1 else None
    chance = _chance(metric, lone) if lone else Series()
    spans = lone.trials if lone and judged else []
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
    values, scores = dict(zip(*run.series(metric.name), strict=True)), run.series(metric.z)
    rows = [(x, abs(2 * values[x] / z)) for x, z in zip(*scores, strict=True) if z and x in values]
    return Series(tuple(x for x, _ in rows), tuple(distance for _, distance in rows))


def _overhead(subjects: Sequence[Subject], window: int) -> Figure | None:
    timed = [subject for subject in subjects if any(run.phases for run in subject.runs)]
    if not timed:
        return None
    simulated = "simulated " if all(run.simulated for s in subjects for run in s.runs) else ""
    bars = tuple(map(_bar, timed))
    stacked = Bars("mean time of a step, the first included", f"{simulated}seconds", bars)
    judged = [s for s in timed if s.mean(lambda run: run.judge_share) is not None]
    if judged:
        lines = [subject.line(lambda run: run.judge_shares(), window) for subject in judged]
        panel = Axes("judge's share of a step", "step", tuple(lines), (0.0,), percent=True)
    else:
        lines = [subject.line(lambda run: run.step_seconds(), window) for subject in timed]
        panel = Axes(f"{simulated}seconds of a step", "step", tuple(lines), (0.0,))
    caption = (
        "Where the time of a step goes: what judging costs has to be less than what it saves in "
        "rollouts."
    )
    return Figure("overhead", "Time and overhead", caption, (stacked, panel))


def _bar(subject: Subject) -> Bar:
    """The mean time of a step by phase."""
    runs = [run for run in subject.runs if run.phases]
    steps = sum(len(run.timings) for run in runs)
    share = subject.mean(lambda run: run.judge_share)
    note = "no judge" if share is None else f"judge {share:.1%}"
    names = dict.fromkeys(phase for run in runs for phase in run.phases)
    parts = {name: sum(run.phases.get(name, 0.0) for run in runs) / steps for name in names}
    seconds = sum(run.elapsed for run in runs) / steps
    return Bar(subject.label, f"{seconds:.3g} s · {note}", parts)
