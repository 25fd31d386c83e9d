"""The page of runs: their diagnosis, the numbers asked for first, figures, table, settings."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape

from metis.report import answers, html, opening, svg, tables
from metis.report.charts import smoothing
from metis.report.panels import Figure
from metis.report.reproduce import of_runs, portable
from metis.report.subjects import each
from metis.run import comparable
from metis.run.manifest import describe_changes
from metis.run.recorded import Recorded, Validation


def page(runs: Sequence[Recorded], figures: Sequence[Figure]) -> str:
    """The whole report."""
    runs = [replace(run, config=portable(run.config)) for run in runs]
    window, alone = smoothing(runs), len(runs) == 1
    thick = f"Thin lines are single steps, thick lines a running mean over {window} of them."
    body = [
        *_head(runs),
        *opening.diagnosis(runs),
        _cards(runs),
        *(answers.section(runs[0]) if alone else ()),
        *html.figures(figures, each(runs), thick if window > 1 else ""),
        "<h2>Runs</h2>",
        html.table([tables.HEADER, *tables.rows(runs)]),
        *_by_benchmark(runs),
        html.commands(of_runs(runs)),
        "<h2>Settings</h2>",
        *(html.settings("Every setting of this run" if alone else r.label, r) for r in runs),
    ]
    return html.document(opening.title(runs), body, switched=len(runs))


def _head(runs: Sequence[Recorded]) -> Iterator[str]:
    yield '<header><p class="over">METIS report</p>'
    yield f"<h1>{escape(opening.title(runs))}</h1>"
    alone = len(runs) == 1
    if not alone and len({_but_for_seed(run) for run in runs}) == len(runs):
        yield "<p>One seed for each setting: small differences may be chance.</p>"
    named = f"{runs[0].label} · " if alone else ""
    for text in dict.fromkeys(f"{named}{opening.summary(run)}" for run in runs):
        yield f'<p class="soft">{escape(text)}</p>'
    yield "</header>"
    first, *unlike = comparable.groups(runs)
    for group in unlike:
        labels = ", ".join(run.label for run in group)
        why = next(filter(None, (comparable.why_not(group[0], run) for run in first)))
        said = f"{labels}: validated otherwise than {runs[0].label} ({why}); drawn apart."
        yield html.banner("Held-out accuracy is not compared.", said)
    simulated = [run for run in runs if run.simulated]
    if simulated:
        some = ", ".join(run.label for run in simulated) if len(simulated) < len(runs) else ""
        yield html.simulated(some)
    for run in runs:
        name = "This run" if len(runs) == 1 else run.label
        if run.steps < run.planned:
            yield html.banner("Unfinished.", f"{name} has done {tables.progress(run)} steps.")
        if run.changes:
            yield html.banner("Changed on the way.", f"{name} went on with {_changes(run)}.")


def _by_benchmark(runs: Sequence[Recorded]) -> Iterator[str]:
    if rows := tables.by_benchmark(runs):
        yield f"<h2>{tables.BY_BENCHMARK}</h2>{html.table(rows)}"


def _but_for_seed(run: Recorded) -> str:
    settings = {key: value for key, value in run.config.items() if key not in ("seed", "changes")}
    return json.dumps(settings, sort_keys=True)


def _changes(run: Recorded) -> str:
    steps = dict.fromkeys(change["step"] for change in run.changes)
    parts = ([change for change in run.changes if change["step"] == step] for step in steps)
    return "; ".join(f"{describe_changes(part)} from step {part[0]['step']:,}" for part in parts)


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
        *_judged(runs),
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
        return tables.MISSING, "no validation"
    first, last = tests[0], tests[-1]
    error = _error(run, last)
    if len(tests) == 1:
        return tables.accuracy(first), f"at step {first.step:,}, the only validation{error}"
    ends = f"{first.accuracy:.3f} → {tables.accuracy(last)}"
    return ends, f"from step {first.step:,} to step {last.step:,}{error}"


def _error(run: Recorded, test: Validation) -> str:
    """What ± is; where nothing varies, what every problem scored. Else nothing is known."""
    if test.stderr is not None:
        return "; ± one standard error"
    scores = run.rewards.get(test.step, {}).values()
    same = f"; each of the {len(scores):,} problems scored {test.accuracy:g}"
    return same if len(set(scores)) == 1 else ""


def _judged(runs: Sequence[Recorded]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The card of the time of judging; none of runs that neither judge nor read candidates."""
    if any(run.judge_share is not None or run.judged or _reading(run) for run in runs):
        yield "Time spent judging", [_judging(run) for run in runs]


def _reading(run: Recorded) -> float:
    """The share of the time in which candidates were read without being judged."""
    return run.phases.get("select", 0.0) / run.elapsed if run.elapsed else 0.0


def _judging(run: Recorded) -> tuple[str, str]:
    if not run.timings:
        return tables.MISSING, "no timings recorded"
    spent = f"of {tables.duration(run.elapsed, run.simulated)}"
    if run.judge_share is not None:
        return tables.share(run.judge_share), f"{spent}; {tables.trusted(run)}"
    read = _reading(run)
    if run.judged and read:
        return tables.share(read), f"{spent}, for reading candidates; {tables.trusted(run)}"
    also = f"; reading candidates took {tables.share(read)}" if read else ""
    return "none", f"{spent}: no judgment was asked for{also}"
