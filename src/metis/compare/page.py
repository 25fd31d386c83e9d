"""The page of a comparison: verdicts, curves, tables, arms, and the commands that make it again."""

import json
from collections.abc import Iterator, Sequence
from html import escape

from metis.compare import charts, table
from metis.compare.comparison import Comparison
from metis.report import html
from metis.report.charts import smoothing
from metis.report.page import summary
from metis.report.panels import Figure
from metis.report.reproduce import portable
from metis.run.manifest import differences, settings
from metis.run.recorded import Recorded

FEW = 4
"""Arms that fit into a title."""


def page(comparison: Comparison, figures: Sequence[Figure], commands: Sequence[str]) -> str:
    """The whole report of a comparison."""
    shown = charts.subjects(comparison)
    window = smoothing([run for subject in shown for run in subject.runs])
    mean = f"a running mean over {window} steps, " if window > 1 else ""
    about = f"Curves over steps are {mean}then the mean over seeds; bands are one standard error."
    names = [arm.name for arm in comparison.everyone]
    body = [
        *_head(comparison, names),
        *_tables(comparison),
        *html.figures(figures, shown, about),
        "<h2>Arms</h2>",
        html.table(_arms(comparison)),
        html.commands(commands),
        "<h2>Settings</h2>",
        *(
            html.settings(f"{arm.name}, seed {arm.seeds[0]}", arm.records[0])
            for arm in comparison.everyone
        ),
    ]
    return html.document(" · ".join(names), body, switched=len(names))


def _head(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    runs = [run for arm in comparison.everyone for run in arm.records]
    others = ", ".join(names[1:]) if len(names) <= FEW else f"{len(names) - 1} arms"
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
    said = [
        f"<li><strong>{escape(name)}</strong> {escape(text)}</li>"
        for name, text in table.verdicts(comparison)
    ]
    yield f'<ul class="verdicts">{"".join(said)}</ul>' if said else f"<p>{table.ALONE}</p>"


def _tables(comparison: Comparison) -> Iterator[str]:
    for section in table.sections(comparison):
        yield f"<h2>{escape(section.title)}</h2>{html.table(section.rows)}"
    for note in table.notes(comparison):
        yield f'<p class="soft about">{escape(note)}</p>'


def _arms(comparison: Comparison) -> list[list[str]]:
    """Each arm, and the settings in which it differs from the baseline."""
    base = comparison.baseline.records[0]
    rows = [["arm", "seeds", f"settings other than {comparison.baseline.name}'s"]]
    for arm in comparison.everyone:
        seeds = ", ".join(map(str, arm.seeds))
        rows.append([arm.name, seeds, "; ".join(_others(base, arm.records[0])) or "–"])
    return rows


def _others(base: Recorded, run: Recorded) -> Iterator[str]:
    ours, theirs = (settings(portable(record.config)) for record in (run, base))
    for key, _, value in differences(theirs, ours):
        if key != "seed" and value is not None:
            yield f"{key}={value if isinstance(value, str) else json.dumps(value)}"
