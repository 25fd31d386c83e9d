"""The report as one page that opens anywhere: no script, no font and no image from elsewhere."""

import json
from collections.abc import Iterator, Sequence
from html import escape

import metis
from metis.identity import described
from metis.report import svg, tables
from metis.report.charts import smoothing
from metis.report.curves import Recorded
from metis.report.panels import Axes, Bars, Figure
from metis.report.style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(runs: Sequence[Recorded], figures: Sequence[Figure]) -> str:
    """The whole report."""
    title = runs[0].label if len(runs) == 1 else f"{len(runs)} runs"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f"<title>{escape(title)} · METIS report</title>",
            f"<style>{STYLE}</style>\n</head>\n<body>",
            *_head(runs),
            _cards(runs),
            *_figures(runs, figures),
            "<h2>Runs</h2>",
            _table(runs),
            "<h2>Settings</h2>",
            *(_settings(run, alone=len(runs) == 1) for run in runs),
            f"<footer>Made by metis {escape(metis.__version__)} from the logs of "
            f"{'this run' if len(runs) == 1 else 'these runs'}.</footer>",
            "</body>\n</html>\n",
        ]
    )


def _head(runs: Sequence[Recorded]) -> Iterator[str]:
    yield '<header><p class="over">METIS report</p>'
    if len(runs) == 1:
        yield f"<h1>{escape(runs[0].label)}</h1>"
    else:
        names = list(dict.fromkeys(run.curriculum for run in runs))
        yield f"<h1>{len(runs)} runs: {escape(', '.join(names))}</h1>"
        if len({_but_for_seed(run) for run in runs}) == len(runs):
            yield "<p>One seed for each setting: small differences may be chance.</p>"
    for text in dict.fromkeys(_what(run) for run in runs):
        yield f'<p class="soft">{escape(text)}</p>'
    yield "</header>"
    simulated = [run for run in runs if run.simulated]
    if simulated:
        some = ", ".join(run.label for run in simulated) if len(simulated) < len(runs) else ""
        title = f"Simulated: {some}." if some else "Simulated."
        yield (
            f'<p class="banner" role="note"><strong>{escape(title)}</strong> An item-response '
            "learner on a virtual clock, not a language model: this shows that the loop works, not "
            "what a curriculum buys on a real task.</p>"
        )
    for run in runs:
        name = "This run" if len(runs) == 1 else escape(run.label)
        if run.steps < run.planned:
            yield (
                f'<p class="banner" role="note"><strong>Unfinished.</strong> {name} has done '
                f"{tables.progress(run)} steps.</p>"
            )
        if run.changes:
            yield (
                f'<p class="banner" role="note"><strong>Changed on the way.</strong> {name} went '
                f"on with {escape(_changes(run))}.</p>"
            )


def _but_for_seed(run: Recorded) -> str:
    settings = {key: value for key, value in run.config.items() if key not in ("seed", "changes")}
    return json.dumps(settings, sort_keys=True)


def _changes(run: Recorded) -> str:
    steps = dict.fromkeys(change["step"] for change in run.changes)
    parts = ([change for change in run.changes if change["step"] == step] for step in steps)
    return "; ".join(f"{described(part)} from step {part[0]['step']:,}" for part in parts)


def _what(run: Recorded) -> str:
    parts = [f"{run.named('engine') or 'unknown'} engine"]
    parts += [f"{key} {name}" for key in ("model", "task") if (name := run.named(key))]
    parts.append(f"{run.planned:,} steps")
    batch, group = run.config.get("batch"), run.config.get("group")
    if batch is not None and group is not None:
        parts.append(f"batches of {batch} prompts × {group} rollouts")
    return " · ".join(parts)


def _cards(runs: Sequence[Recorded]) -> str:
    cards = (
        ("Held-out accuracy", [_accuracy(run) for run in runs]),
        (
            "Informative groups",
            [
                (tables.share(run.informative), "of the groups trained on, mean over all steps")
                for run in runs
            ],
        ),
        ("Time spent judging", [_judging(run) for run in runs]),
    )
    return f'<section class="cards">{"".join(_card(*card, runs) for card in cards)}</section>'


def _card(name: str, values: Sequence[tuple[str, str]], runs: Sequence[Recorded]) -> str:
    top = f'<div class="card"><p class="name">{name}</p>'
    if len(runs) == 1:
        big, note = values[0]
        return f'{top}<p class="big">{escape(big)}</p><p class="note">{escape(note)}</p></div>'
    lines = []
    for colour, (run, (value, _)) in enumerate(zip(runs, values, strict=True)):
        swatch = f'<span class="swatch {svg.run_class(colour)}"></span>'
        lines.append(f"<dt>{swatch}{escape(run.label)}</dt><dd>{escape(value)}</dd>")
    return f"{top}<dl>{''.join(lines)}</dl></div>"


def _accuracy(run: Recorded) -> tuple[str, str]:
    tests = run.evaluations
    if not tests:
        return tables.MISSING, "not evaluated"
    first, last = tests[0], tests[-1]
    error = "standard error not recorded" if last.stderr is None else "± one standard error"
    if len(tests) == 1:
        return tables.accuracy(first), f"at step {first.step:,}, the only evaluation; {error}"
    ends = f"{first.accuracy:.3f} → {tables.accuracy(last)}"
    return ends, f"from step {first.step:,} to step {last.step:,}; {error}"


def _judging(run: Recorded) -> tuple[str, str]:
    if not run.timings:
        return tables.MISSING, "no timings recorded"
    spent = f"of {tables.duration(run.elapsed, run.simulated)}"
    if run.judge_share is None:
        return "none", f"{spent}: nothing was judged"
    return tables.share(run.judge_share), f"{spent}; {tables.trusted(run)}"


def _figures(runs: Sequence[Recorded], figures: Sequence[Figure]) -> Iterator[str]:
    if not figures:
        yield '<h2>Figures</h2><p class="soft">Nothing has been recorded yet.</p>'
        return
    window = smoothing(runs)
    thick = f"Thin lines are single steps, thick lines a running mean over {window} of them."
    yield f'<h2>Figures</h2><p class="soft">{thick if window > 1 else ""}</p>'
    yield '<div class="grid-of-figures">'
    for figure in figures:
        wide = ' class="wide"' if len(figure.panels) > 1 else ""
        yield (
            f"<figure{wide}><h3>{escape(figure.title)}</h3>"
            f"<figcaption>{escape(figure.caption)}</figcaption>{_legend(figure, len(runs) > 1)}"
            f'<div class="panels">{"".join(map(svg.draw, figure.panels))}</div></figure>'
        )
    yield "</div>"


def _legend(figure: Figure, several: bool) -> str:
    """Colours of runs, dashed lines and phases; empty where there is nothing to tell apart."""
    entries: dict[str, str] = {}
    for panel in figure.panels:
        if isinstance(panel, Bars):
            entries |= {name: f"swatch block {svg.phase_class(name)}" for name in panel.phases}
            continue
        for line in panel.lines:
            style = "dashed" if line.dashed else svg.run_class(line.colour)
            entries[line.label] = f"swatch {style}"
        entries |= _ground(panel)
    shown = entries if several or len(entries) > 1 else {}
    items = (
        f'<li><span class="{style}"></span>{escape(name)}</li>' for name, style in shown.items()
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _ground(panel: Axes) -> dict[str, str]:
    """All that is drawn beside the curves, by name."""
    named = (
        (panel.reference_label, "swatch dashed soft"),
        (panel.diagonal, "swatch dashed soft"),
        (panel.chance_label, "swatch block chance"),
        (panel.spans_label, "swatch block span"),
    )
    return {name: style for name, style in named if name}


def _table(runs: Sequence[Recorded]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in tables.HEADER)
    body = ""
    for row in tables.rows(runs):
        body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _settings(run: Recorded, alone: bool) -> str:
    name = "Every setting of this run" if alone else run.label
    parts = [json.dumps(run.config, indent=2, ensure_ascii=False)]
    if run.versions:
        parts.append(json.dumps(run.versions, indent=2, ensure_ascii=False))
    text = "\n\n".join(parts)
    return f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
