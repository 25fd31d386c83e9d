"""The report of a comparison: figures, page, table, and the commands that reproduce it."""

import json
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from metis import report
from metis.comparisons import table
from metis.comparisons.comparison import Comparison, read_comparison, require_variant
from metis.comparisons.crossing import Floats
from metis.comparisons.measures import MeasuredVariant
from metis.comparisons.plan import ComparisonPlan, Variant, saved
from metis.comparisons.table import markdown
from metis.comparisons.verdicts import verdicts
from metis.errors import Damaged
from metis.report import charts, html, svg
from metis.report.charts import smoothing
from metis.report.opening import summary
from metis.report.panels import Axes, Figure, Line
from metis.report.reproduce import command, elsewhere, place, portable
from metis.report.subjects import Subject, standard_error
from metis.run.manifest import differences, settings_of
from metis.run.recorded import Recorded, Series
from metis.run.statistics import student

CAPTION = (
    "Accuracy on prompts that are never trained on: the further left a curve reaches the dashed "
    "best accuracy of {baseline}, the more its curriculum saved. {bands} The best is the highest "
    "accuracy that the next test keeps."
)
BANDS = (
    "Thick lines are means over runs, not smoothed; thin lines are the runs, and bands 95% "
    "intervals of the mean by Student's t, of three runs or more."
)
FEW = 4
"""Variants that fit into a title."""


def draw(comparison: Comparison) -> tuple[Comparison, list[Figure]]:
    """The figures of a comparison, and the comparison without runs whose logs are damaged."""
    while True:
        try:
            return comparison, figures(comparison)
        except Damaged as error:
            comparison = comparison.without(error)


def write(
    folder: Path,
    comparison: Comparison,
    drawn: Sequence[Figure],
    plan: ComparisonPlan | None,
    out: Path | None = None,
) -> list[str]:
    """Write the report of a comparison into its folder, or into `out`; return what to say."""
    out, text = out or folder, markdown(comparison)
    html = page(comparison, drawn, commands(folder, comparison, plan))
    where = report.save(out, {"comparison.md": text, "report.html": html}, drawn)
    return [text, f"comparison: {out / 'comparison.md'}", *where]


def redraw(folder: Path, out: Path | None = None, baseline: str = "") -> list[str]:
    """Write the report of a folder as it is; nothing is trained, no baseline saved."""
    plan = saved(folder)
    require_variant(folder, plan, baseline)
    comparison = read_comparison(folder, plan, baseline=baseline, any_baseline=not baseline)
    return write(folder, *draw(comparison), plan, out)


def commands(folder: Path, comparison: Comparison, plan: ComparisonPlan | None) -> list[str]:
    """Commands that reproduce the comparison: one with its plan, or one per run."""
    if plan is not None:
        return [_compare(plan, comparison.baseline.name, folder.resolve().name)]
    runs = [run.folder.name for variant in comparison.everyone for run in variant.records]
    where, again = place(folder), Path("again")
    lines = [
        command("train", str(where / run / "config.json"), "--out", str(again / run))
        for run in runs
    ]
    baseline = comparison.baseline.name
    return [
        *elsewhere([folder]),
        *lines,
        command("compare", "--baseline", baseline, "--out", str(again)),
    ]


def _compare(plan: ComparisonPlan, baseline: str, name: str) -> str:
    plain = [
        variant
        for variant in plan.variants
        if variant == Variant(variant.name, (f"curriculum={variant.name}",))
    ]
    words = [plan.recipe] if plan.recipe else []
    words += plan.settings
    words += ["--curricula", ",".join(variant.name for variant in plain)] if plain else []
    for variant in plan.variants:
        if variant not in plain:
            words += ["--variant", f"{variant.name}:{','.join(variant.settings)}"]
    words += plan.suite.options if plan.suite.names else []
    words += ["--seeds", ",".join(map(str, plan.seeds)), "--baseline", baseline, "--out", name]
    return command("compare", *words)


def subjects(comparison: Comparison) -> list[Subject]:
    """The variants, the baseline first."""
    everyone = enumerate(comparison.everyone)
    return [Subject(variant.name, colour, variant.records) for colour, variant in everyone]


def figures(comparison: Comparison) -> list[Figure]:
    """Accuracy over the budget and the other costs, then all that is drawn of runs over steps."""
    over_steps = charts.figures(subjects(comparison), comparison.timed)
    return [*accuracy(comparison), *over_steps]


def accuracy(comparison: Comparison) -> list[Figure]:
    """Accuracy over the budget, then over the other costs that were counted."""
    caption = CAPTION.format(baseline=comparison.baseline.name, bands=BANDS)
    lead = Figure(charts.ACCURACY, charts.TITLE, caption, (_panel(comparison, comparison.lead),))
    others = tuple(
        _panel(comparison, axis)
        for axis in comparison.axes
        if axis != comparison.lead and comparison.counted(axis)
    )
    over = "The same over the other costs."
    by_cost = (
        [Figure(charts.BY_COST, "Held-out accuracy over other costs", over, others)]
        if others
        else []
    )
    return [lead, *by_cost]


def _panel(comparison: Comparison, axis: str) -> Axes:
    """Accuracy over a cost, with the best of the baseline."""
    variants = [comparison.tested_alike(variant) for variant in comparison.everyone]
    return Axes(
        charts.Y_LABEL,
        axis,
        tuple(_line(variant, colour, axis) for colour, variant in enumerate(variants)),
        whole=axis != "seconds",
        reference=variants[0].best[1].mean,
        reference_label=f"{comparison.baseline.name}'s best",
    )


def _line(variant: MeasuredVariant, colour: int, axis: str) -> Line:
    values, costs = variant.runs(axis)
    curve, cost = (tuple(part.mean(axis=0).tolist()) for part in (values, costs))
    runs = zip(costs.tolist(), values.tolist(), strict=True)
    thin = tuple(Series(tuple(x), tuple(y)) for x, y in runs) if len(variant.seeds) > 1 else ()
    bounds = (0.0, 1.0) if values.min() >= 0 and values.max() <= 1 else (-math.inf, math.inf)
    band = interval(values)
    return Line(variant.name, colour, Series(cost, curve), band=band, within=bounds, thin=thin)


def interval(accuracy: Floats) -> tuple[float, ...]:
    """Half the 95% interval of the mean over runs at each test; none of fewer than three runs."""
    freedom = len(accuracy) - 1
    if freedom < 2:
        return ()
    wide = student(freedom)
    return tuple(wide * error for error in standard_error(accuracy))


def page(comparison: Comparison, figures: Sequence[Figure], commands: Sequence[str]) -> str:
    """The whole report of a comparison."""
    shown = subjects(comparison)
    window = smoothing([run for subject in shown for run in subject.runs])
    mean = f"a running mean over {window} steps, " if window > 1 else ""
    about = f"Curves over steps are {mean}then the mean over seeds; bands are one standard error."
    names = [variant.name for variant in comparison.everyone]
    lead, *others = figures
    body = [
        *_head(comparison, names),
        *([html.switches(shown)] if len(shown) > 1 else []),
        html.figure(lead, shown, "lead"),
        _lines(comparison),
        *_tables(comparison),
        *html.figures(others, shown, about, switched=False),
        "<h2>Variants</h2>",
        html.table(_variants(comparison)),
        html.commands(commands),
        "<h2>Settings</h2>",
        *(
            html.settings(f"{variant.name}, seed {variant.seeds[0]}", variant.records[0])
            for variant in comparison.everyone
        ),
    ]
    return html.document(" · ".join(names), body, switched=len(names))


def _head(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    runs = [run for variant in comparison.everyone for run in variant.records]
    others = ", ".join(names[1:]) if len(names) <= FEW else f"{len(names) - 1} variants"
    title = f"{others} against {names[0]}" if others else names[0]
    yield f'<header><p class="over">METIS comparison</p><h1>{escape(title)}</h1>'
    planned = sorted({run.planned for run in runs})
    steps = f"{planned[0]:,} to {planned[-1]:,}" if len(planned) > 1 else ""
    for text in dict.fromkeys(str(portable(summary(run, steps))) for run in runs):
        yield f'<p class="soft">{escape(text)}</p>'
    yield "</header>"
    if any(run.simulated for run in runs):
        yield html.simulated()
    if comparison.missing:
        yield html.banner("Not complete.", f"Left out: {'; '.join(comparison.missing)}.")
    if comparison.apart:
        left = f"Validated otherwise, and left out: {'; '.join(comparison.apart)}."
        yield html.banner("Not compared.", left)


def _lines(comparison: Comparison) -> str:
    """A line for each variant, in its colour."""
    said = [
        f'<li><span class="swatch {svg.run_class(colour)}"></span><strong>{escape(name)}</strong> '
        f"{escape(text)}</li>"
        for colour, (name, text) in enumerate(verdicts(comparison), start=1)
    ]
    return f'<ul class="verdicts">{"".join(said)}</ul>' if said else f"<p>{table.ALONE}</p>"


def _tables(comparison: Comparison) -> Iterator[str]:
    for section in table.sections(comparison):
        yield f"<h2>{escape(section.title)}</h2>{html.table(section.rows)}"
    for note in table.notes(comparison):
        yield f'<p class="soft about">{escape(note)}</p>'


def _variants(comparison: Comparison) -> list[list[str]]:
    """Each variant, and the settings in which it differs from the baseline."""
    base = comparison.baseline.records[0]
    rows = [["variant", "seeds", f"settings other than {comparison.baseline.name}'s"]]
    for variant in comparison.everyone:
        seeds = ", ".join(map(str, variant.seeds))
        rows.append([variant.name, seeds, "; ".join(_others(base, variant.records[0])) or "–"])
    return rows


def _others(base: Recorded, run: Recorded) -> Iterator[str]:
    ours, theirs = (settings_of(portable(record.config)) for record in (run, base))
    for key, _, value in differences(theirs, ours):
        if key != "seed" and value is not None:
            yield f"{key}={value if isinstance(value, str) else json.dumps(value)}"
