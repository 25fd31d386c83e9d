"""The parts of a self-contained page: no external script, font or image."""

import json
import re
from collections.abc import Iterator, Sequence
from html import escape

import metis
from metis.report import svg
from metis.report.panels import Figure
from metis.report.reproduce import portable
from metis.report.style import STYLE
from metis.report.subjects import Subject
from metis.run.recorded import Recorded

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
SMALL_MULTIPLES = 6
"""Panels from which on a figure has three columns."""


def document(
    title: str, body: Sequence[str], switched: int = 0, made_from: str = "the logs of the runs"
) -> str:
    """A whole page; `switched` is the number of subjects that can be hidden."""
    hiding = "".join(
        f"body:has(#show{n}:not(:checked)) .s{n} {{ display: none; }}\n" for n in range(switched)
    )
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f"<title>{escape(title)} · METIS report</title>",
            f"<style>{STYLE}{hiding}</style>\n</head>\n<body>",
            *body,
            f"<footer>Made by metis {escape(metis.__version__)} from {escape(made_from)}.</footer>"
            "</body>\n</html>\n",
        ]
    )


def banner(title: str, text: str) -> str:
    """A highlighted remark."""
    return f'<p class="banner" role="note"><strong>{escape(title)}</strong> {escape(text)}</p>'


def simulated(some: str = "") -> str:
    """The banner of simulated runs, by name where others are not."""
    return banner(
        f"Simulated: {some}." if some else "Simulated.",
        "An item-response learner on a virtual clock, not a language model: this shows that the "
        "loop works, not what a curriculum buys on a real task.",
    )


def figures(
    drawn: Sequence[Figure], subjects: Sequence[Subject], about: str, switched: bool = True
) -> Iterator[str]:
    """The section of figures; several subjects can be shown and hidden, if `switched` here."""
    yield "<h2>Figures</h2>"
    if not drawn:
        yield '<p class="soft">Nothing has been recorded yet.</p>'
        return
    if about:
        yield f'<p class="soft">{escape(about)}</p>'
    if len(subjects) > 1 and switched:
        yield switches(subjects)
    yield '<div class="grid-of-figures">'
    for each in drawn:
        count = len(each.panels)
        kind = "wide many" if count >= SMALL_MULTIPLES else "wide" if count > 1 else "single"
        yield figure(each, subjects, kind)
    yield "</div>"


def figure(drawn: Figure, subjects: Sequence[Subject], kind: str) -> str:
    """A figure of this style, with its title, its caption and what the switches do not name."""
    return (
        f'<figure class="{kind}"><h3>{escape(drawn.title)}</h3>'
        f"<figcaption>{escape(drawn.caption)}</figcaption>{_legend(drawn, subjects)}"
        f'<div class="panels">{"".join(map(svg.draw, drawn.panels))}</div></figure>'
    )


def switches(subjects: Sequence[Subject]) -> str:
    """A box to tick for each subject: the legend of all figures, which hides what is not ticked."""
    boxes = (
        f'<label><input type="checkbox" id="show{subject.colour}" checked>'
        f'<span class="swatch {svg.run_class(subject.colour)}"></span>{escape(subject.label)}'
        "</label>"
        for subject in subjects
    )
    return f'<fieldset class="switches"><legend>Shown</legend>{"".join(boxes)}</fieldset>'


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows under the first, which names the columns; on a phone each row is a block."""
    head, *body = rows
    kinds = [_kind(cells) for cells in zip(*body, strict=True)] or [""] * len(head)
    names = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(head, kinds, strict=True)
    )
    lines = []
    for row in body:
        cells = (
            f'<td data-name="{escape(name)}"{kind}>{escape(unbroken(cell))}</td>'
            for name, cell, kind in zip(head, row, kinds, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(cells: Sequence[str]) -> str:
    """The style of a column: words stand to the left, numbers to the right."""
    words = any(cell[:1].isalpha() for cell in cells)
    return ' class="words"' if words and not any(cell[:1].isdecimal() for cell in cells) else ""


def unbroken(text: str) -> str:
    """A table cell that wraps only before an interval."""
    text = text.replace(" ± ", "\u00a0±\u00a0")
    return re.sub(r"\[.*?\]", lambda interval: interval[0].replace(" ", "\u00a0"), text)


def commands(lines: Sequence[str]) -> str:
    """The section of command lines."""
    return f'<h2>Reproduce</h2><pre class="commands">{escape(chr(10).join(lines))}</pre>'


def settings(name: str, run: Recorded) -> str:
    """All settings and versions of a run, folded."""
    parts = [run.config, run.versions] if run.versions else [run.config]
    text = "\n\n".join(json.dumps(portable(p), indent=2, ensure_ascii=False) for p in parts)
    return f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"


def _legend(figure: Figure, subjects: Sequence[Subject]) -> str:
    """All that the switches do not name; empty where there is nothing to tell apart."""
    entries = svg.legend(figure)
    if len(subjects) > 1:
        named = {subject.label for subject in subjects}
        shown = {name: style for name, style in entries.items() if name not in named}
    else:
        shown = entries if len(entries) > 1 else {}
    items = (
        f'<li><span class="swatch {style}"></span>{escape(name)}</li>'
        for name, style in shown.items()
    )
    return f'<ul class="legend">{"".join(items)}</ul>'
