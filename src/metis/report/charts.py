"""The figures of the METIS paper as data: curves, axes, captions."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from metis.report import calibration
from metis.report.panels import Axes, Bar, Bars, Figure, Line
from metis.report.subjects import Subject
from metis.run import comparable
from metis.run import folder as run_folder
from metis.run import metrics as explained
from metis.run.recorded import Recorded, Series

ACCURACY, BY_COST = "accuracy", "accuracy_by_cost"
TITLE = "Held-out accuracy"
Y_LABEL = "held-out accuracy"
CAPTION_ACCURACY = (
    "Accuracy on prompts that are never trained on, at equal time and at equal steps (testing "
    "itself is not timed): the earlier a curve is high, the more its curriculum saved."
)
ERRORS = "Bars are one standard error."
APART = "Runs that are not validated alike are drawn apart."


def accuracy_figure(subjects: Sequence[Subject]) -> Figure | None:
    """A panel for time, where it is known, and one for steps; None where nothing was tested.

    Runs that are not validated alike have panels of their own, over steps.
    """
    runs = [run for subject in subjects for run in subject.runs]
    if not any(run.evaluations for run in runs):
        return None
    colours = {run.folder: colour for colour, run in enumerate(runs)}
    alike = [group for group in comparable.groups(runs) if any(run.evaluations for run in group)]
    unit = time_unit(runs) if len(alike) == 1 else None
    panels = [panel for group in alike for panel in _accuracies(group, colours, unit)]
    bars = any(line.error for panel in panels for line in panel.lines)
    parts = [CAPTION_ACCURACY, *([ERRORS] if bars else []), *([APART] if len(alike) > 1 else [])]
    return Figure(ACCURACY, TITLE, " ".join(parts), tuple(panels))


def _accuracies(
    runs: Sequence[Recorded], colours: Mapping[Path, int], unit: tuple[float, str] | None
) -> list[Axes]:
    """The panels of runs that are validated alike; `unit` is that of the time, if it is drawn."""
    by_step, by_time = [], []
    seconds, unit_name = unit or (1.0, "")
    for run in runs:
        rows, colour = run.evaluations, colours[run.folder]
        by_step.append(_tested(run, colour, [(row.step, row.accuracy, row.stderr) for row in rows]))
        timed = [(r.elapsed / seconds, r.accuracy, r.stderr) for r in rows if r.elapsed is not None]
        by_time.append(_tested(run, colour, timed))
    panels = [Axes(Y_LABEL, "step", tuple(line for line in by_step if line.series.x))]
    if unit and any(run.timings for run in runs):
        lines = tuple(line for line in by_time if line.series.x)
        panels.insert(0, Axes(Y_LABEL, f"elapsed {unit_name}", lines, whole=False))
    return panels


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


OCCUPANCY = "occupancy"
MOST = 12
"""Categories that have a panel; of more, the rarest share one."""
POOL = "share of the training set"
CAPTION = (
    "Share of each category among the prompts of a step. A curve that stays at zero, below the "
    "dashed share of the training set, is a category that is starved; one far above it crowds out "
    "others."
)
UNKNOWN = (
    " The share of the training set is not drawn where runs did not record it, or differ in it."
)

Shares = Mapping[int, Counter[str]]
"""Groups of each step by category."""


def occupancy_figure(subjects: Sequence[Subject], window: int) -> Figure | None:
    """A panel for each category; None where no run has more than one."""
    runs = [run for subject in subjects for run in subject.runs]
    counted = {run.folder: _by_step(run) for run in runs}
    pool = _pool(runs)
    totals = Counter(pool)
    for steps in counted.values():
        totals.update(sum(steps.values(), Counter()))
    if len(totals) < 2:
        return None
    whole = sum(pool.values())
    panels = []
    for title, names in _panels(pool or totals).items():

        def share(run: Recorded, names: frozenset[str] = names) -> Series:
            return _share(counted[run.folder], names)

        lines = [subject.line(share, window) for subject in subjects]
        panels.append(
            Axes(
                title,
                "step",
                tuple(line for line in lines if line.series.x),
                cover=(0.0,),
                percent=True,
                reference=sum(pool[name] for name in names) / whole if whole else None,
                reference_label=POOL if whole else "",
            )
        )
    panels = [panel for panel in panels if panel.lines]
    caption = CAPTION if whole else CAPTION + UNKNOWN
    return Figure(OCCUPANCY, "Pool occupancy", caption, tuple(panels)) if panels else None


def _by_step(run: Recorded) -> Shares:
    steps: dict[int, Counter[str]] = defaultdict(Counter)
    for row in run_folder.log_rows(run.folder, "rollouts", optional=True):
        steps[row["step"]][str(row.get("category", ""))] += 1
    return steps


def _share(steps: Shares, names: frozenset[str]) -> Series:
    places = sorted(steps)
    shares = (sum(steps[step][name] for name in names) / steps[step].total() for step in places)
    return Series(tuple(map(float, places)), tuple(shares))


def _pool(runs: Sequence[Recorded]) -> Counter[str]:
    """Prompts of the pool by category; none where runs do not know it or differ."""
    pools = {tuple(sorted(run.pool.items())) for run in runs}
    return Counter(dict(pools.pop())) if len(pools) == 1 else Counter()


def _panels(counts: Mapping[str, int]) -> dict[str, frozenset[str]]:
    """The categories of each panel: the most frequent alone, in the order of their names."""
    frequent = sorted(counts, key=lambda name: (-counts[name], _order(name)))
    kept = frequent if len(frequent) <= MOST else frequent[: MOST - 1]
    panels = {name or "no category": frozenset({name}) for name in sorted(kept, key=_order)}
    rest = frozenset(frequent[len(kept) :])
    return panels | ({f"{len(rest):,} rarer categories": rest} if rest else {})


def _order(name: str) -> list[tuple[int, int, str]]:
    """A natural sort key: numbers in a name count by their value."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


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
        "so a good curriculum is drawn to it: from below on a hard set, from above on an easy "
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
    ACCURACY,
    *(spec.name for spec in PER_STEP),
    *(calibration.NAME, calibration.FORECAST, OCCUPANCY),
    "overhead",
)
"""The names of all figures that runs can have; comparisons have `BY_COST` too."""


def figures(subjects: Sequence[Subject], timed: bool = True) -> list[Figure]:
    """All figures over steps that at least one run has data for; with seconds, if `timed`."""
    window = smoothing([run for subject in subjects for run in subject.runs])
    candidates = [
        *(_per_step(spec, subjects, window) for spec in PER_STEP),
        calibration.figure(subjects),
        calibration.forecast_figure(subjects, window),
        occupancy_figure(subjects, window),
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
    entry = explained.metric_entry(name)
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
