"""Figures as SVG files, for slides and papers: panels side by side, a legend below."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from metis import files
from metis.report import svg
from metis.report.charts import BY_COST, NAMES
from metis.report.panels import Figure
from metis.report.style import CHARTS, LIGHT

MOST_COLUMNS = 3
GAP, MARGIN, TITLE, ENTRY = 40, 24, 40, 20
LETTER = 7.2
"""The width of a letter of a legend, about."""
STYLE = f"""{LIGHT}{CHARTS}
svg {{ background: var(--ground); font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
.title {{ font-size: 17px; font-weight: 600; fill: var(--ink); }}
.block {{ fill: currentColor; }} .block.chance {{ fill: var(--soft); fill-opacity: 0.25; }}
.block.span {{ fill: var(--warn-edge); }}
"""


def write(figures: Sequence[Figure], folder: Path) -> int:
    """Write a file for each figure, and drop those of an earlier report; the number of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        with files.atomic(folder / f"{figure.name}.svg") as file:
            file.write(alone(figure).encode("utf-8", "replace"))
    for name in {*NAMES, BY_COST} - {figure.name for figure in figures}:
        (folder / f"{name}.svg").unlink(missing_ok=True)
    return len(figures)


def alone(figure: Figure) -> str:
    """A figure as a document that needs no page around it."""
    count = len(figure.panels)
    columns = 2 if count == 4 else min(count, MOST_COLUMNS)
    width = columns * (svg.WIDTH + GAP) - GAP
    parts = [f'<text y="18" class="title">{escape(figure.title)}</text>']
    top = float(TITLE)
    for start in range(0, count, columns):
        row = figure.panels[start : start + columns]
        for column, panel in enumerate(row):
            left = column * (svg.WIDTH + GAP)
            parts.append(f'<g transform="translate({left} {top:g})">{svg.content(panel)}</g>')
        top += max(map(svg.height, row)) + ENTRY
    entries = svg.legend(figure)
    lines = list(_lines(entries, width)) if len(entries) > 1 else []
    parts += [_entry(x, top + ENTRY * y, name, entries[name]) for x, y, name in lines]
    bottom = top + ENTRY * (1 + max((y for _, y, _ in lines), default=-1))
    size = width + 2 * MARGIN, bottom + 2 * MARGIN
    place = f'viewBox="{-MARGIN} {-MARGIN} {size[0]} {size[1]:g}"'
    box = f'{place} width="{size[0]}" height="{size[1]:g}"'
    label = f'role="img" aria-label="{escape(figure.title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {label}>'
    return f"{head}<style>{STYLE}</style>{''.join(parts)}</svg>\n"


def _lines(names: Mapping[str, str], width: float) -> Iterator[tuple[float, int, str]]:
    """The positions of the legend's entries, wrapped to lines."""
    x, line = 0.0, 0
    for name in names:
        needed = 30 + LETTER * len(name) + ENTRY
        if x and x + needed > width:
            x, line = 0.0, line + 1
        yield x, line, name
        x += needed


def _entry(x: float, y: float, name: str, style: str) -> str:
    if style.startswith("block"):
        mark = f'<rect class="{style}" x="{x:.1f}" y="{y - 10:g}" width="12" height="12"/>'
    elif style == "dashed soft":
        mark = f'<path class="reference" d="M{x:.1f} {y - 4:g}h20"/>'
    else:
        mark = f'<path class="line {style}" d="M{x:.1f} {y - 4:g}h20"/>'
    return f'{mark}<text x="{x + 28:.1f}" y="{y:g}">{escape(name)}</text>'
