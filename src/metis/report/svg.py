"""A small writer of SVG charts, coloured by the style sheet of the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from metis.report.panels import Axes, Bars, Figure, Line, running_mean, thinned
from metis.run.recorded import PHASES, Series

WIDTH, HEIGHT = 460, 272
LEFT, RIGHT, TOP, BOTTOM = 48, 14, 34, 46
COLOURS = 6
"""Colours that the style sheet has for subjects; further ones repeat them, dotted."""

ROW, THICKNESS = 52, 18


@dataclass(frozen=True)
class Scale:
    """Maps values between `low` and `high` to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def spacing(low: float, high: float, most: int = 6) -> float:
    """A round distance of which about `most` fit between `low` and `high`."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)


def ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """The round values from `low` to `high`."""
    step = spacing(low, high)
    step = max(1.0, math.ceil(step)) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """A range around values that ends on ticks and is never empty."""
    low, high = min(values), max(values)
    if high - low < 1e-5:
        margin = max(abs(low) * 0.1, 0.01)
        low, high = low - margin, high + margin
    while True:
        step = spacing(low, high)
        wider = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        if spacing(*wider) == step:
            return wider
        low, high = wider


def extent(axes: Axes) -> tuple[float, float]:
    """The vertical range of a chart: its values, error bars, bands and reference."""
    values = [*axes.cover]
    for line in axes.lines:
        errors = line.error or (0.0,) * len(line.series.y)
        values += [y - e for y, e in zip(line.series.y, errors, strict=True)]
        values += [y + e for y, e in zip(line.series.y, errors, strict=True)]
        drawn = [*(line.edges if line.band else ()), *line.thin]
        values += [y for series in drawn for y in series.y]
    if axes.reference is not None:
        values.append(axes.reference)
    return bounds(values)


def stretch(axes: Axes) -> tuple[float, float]:
    """The horizontal range of a chart: from 0, or around the values it is said to cover."""
    if axes.across:
        return bounds(axes.across)
    drawn = [series for line in axes.lines for series in (line.series, *line.thin)]
    return 0.0, max(max(series.x) for series in drawn) or 1.0


def shade(line: Line) -> tuple[Series, Series]:
    """The edges of the band around a curve."""
    upper, lower = line.edges
    return thinned(upper), thinned(lower)


def funnel(axes: Axes) -> tuple[Series, Series]:
    """The edges of the band of chance, as far as they are within the chart."""
    low, high = extent(axes)
    middle = axes.reference or 0.0
    upper = tuple(min(high, middle + distance) for distance in axes.chance.y)
    lower = tuple(max(low, middle - distance) for distance in axes.chance.y)
    return thinned(Series(axes.chance.x, upper)), thinned(Series(axes.chance.x, lower))


def diagonal(axes: Axes) -> tuple[float, float]:
    """The end points of the diagonal, as values on either axis."""
    (left, right), (low, high) = stretch(axes), extent(axes)
    return max(left, low), min(right, high)


UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"), (0.0, 1.0, ""))
"""The labels of ticks up to at least so much are counted in these sizes."""


def unit(values: Sequence[float]) -> tuple[float, str]:
    """The largest unit that the labels of some ticks can be counted in."""
    most = max(map(abs, values), default=0.0)
    return next((size, name) for least, size, name in UNITS if most >= least)


def written(values: Sequence[float], percent: bool = False) -> list[str]:
    """Tick labels with as many decimals as tell them apart."""
    size, name = (0.01, "%") if percent else unit(values)
    shown = [value / size for value in values]
    for decimals in range(8):
        if all(abs(value - round(value, decimals)) < 1e-9 for value in shown):
            break
    labels = [f"{value:,.{decimals}f}".replace("-", "−") for value in shown]
    return [
        "0" if value == 0 and name and not percent else label + name
        for value, label in zip(values, labels, strict=True)
    ]


def draw(panel: Axes | Bars) -> str:
    """One chart as an `<svg>` element."""
    box = f'viewBox="0 0 {WIDTH} {height(panel)}" role="img"'
    return f'<svg {box} aria-label="{escape(_said(panel))}">{content(panel)}</svg>'


def content(panel: Axes | Bars) -> str:
    """All that is drawn of a chart, WIDTH wide and as high as `height` says."""
    return "".join(_bars(panel) if isinstance(panel, Bars) else _axes(panel))


def height(panel: Axes | Bars) -> int:
    return HEIGHT if isinstance(panel, Axes) else TOP + 8 + ROW * len(panel.bars) + BOTTOM


def legend(figure: Figure) -> dict[str, str]:
    """The styles of all that is drawn in a figure, by name."""
    entries: dict[str, str] = {}
    for panel in figure.panels:
        if isinstance(panel, Bars):
            entries |= {name: f"block {phase_class(name)}" for name in panel.phases}
            continue
        for line in panel.lines:
            entries[line.label] = "dashed" if line.dashed else run_class(line.colour)
        grounds = (
            (panel.reference_label, "dashed soft"),
            (panel.diagonal, "dashed soft"),
            (panel.chance_label, "block chance"),
            (panel.spans_label, "block span"),
        )
        entries |= {name: style for name, style in grounds if name}
    return entries


def _said(panel: Axes | Bars) -> str:
    """The chart in words, for those who do not see it."""
    if isinstance(panel, Bars):
        return f"{panel.y_label} in {panel.x_label}, by phase"
    return f"{panel.y_label} against {panel.x_label}"


def _axes(axes: Axes) -> list[str]:
    (low, high), (left, right) = extent(axes), stretch(axes)
    x = Scale(left, right, LEFT, WIDTH - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    marks, places = ticks(low, high), ticks(left, right, whole=axes.whole)
    parts = [_text(0, 14, _short(axes.y_label, 44), "axis", axes.meaning), *_ground(axes, x, y)]
    parts.append(_x_axis(places, x, HEIGHT - BOTTOM, axes.x_label))
    if axes.note:
        parts.append(_text(WIDTH - RIGHT, 14, axes.note, "tick end"))
    for value, text in zip(marks, written(marks, axes.percent), strict=True):
        parts.append(f'<path class="grid" d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y(value) + 4, text, "tick end"))
    if axes.reference is not None:
        place = y(axes.reference)
        parts.append(f'<path class="reference" d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}"/>')
    if axes.diagonal:
        start, end = diagonal(axes)
        ends = f"M{x(start):.1f} {y(start):.1f}L{x(end):.1f} {y(end):.1f}"
        parts.append(f'<path class="reference" d="{ends}"/>')
    parts += [_band(line, x, y) for line in axes.lines if line.band]
    parts += [_raw(line, line.series, x, y) for line in axes.lines if line.window > 1]
    parts += [_raw(line, series, x, y) for line in axes.lines for series in line.thin]
    parts += [_line(line, x, y) for line in axes.lines]
    return parts


def _ground(axes: Axes, x: Scale, y: Scale) -> list[str]:
    """Strips above the marked stretches, and the band of chance."""
    parts = []
    for start, end in axes.spans:
        first, last = x(max(start, x.low)), x(min(end, x.high))
        place = f'x="{first:.1f}" y="{TOP - 9}" width="{last - first:.1f}" height="5"'
        parts.append(f'<rect class="span" {place}/>')
    if axes.chance.x:
        parts.append(f'<path class="chance" d="{_between(*funnel(axes), x, y)}"/>')
    return parts


def _band(line: Line, x: Scale, y: Scale) -> str:
    return f'<path class="band {_colour(line)}" d="{_between(*shade(line), x, y)}"/>'


def _between(upper: Series, lower: Series, x: Scale, y: Scale) -> str:
    """The outline of what lies between two curves."""
    back = Series(lower.x[::-1], lower.y[::-1])
    return f"{_path(upper, x, y)}L{_path(back, x, y)[1:]}Z"


def _raw(line: Line, series: Series, x: Scale, y: Scale) -> str:
    return f'<path class="raw {_colour(line)}" d="{_path(series, x, y)}"/>'


def _line(line: Line, x: Scale, y: Scale) -> str:
    series = line.series if line.window == 1 else running_mean(line.series, line.window)
    kind = "line dashed" if line.dashed else "line"
    parts = [f'<path class="{kind} {_colour(line)}" d="{_path(series, x, y)}"/>']
    for place, value, error in zip(series.x, series.y, line.error, strict=False):
        ends = f"M{x(place):.1f} {y(value - error):.1f}V{y(value + error):.1f}"
        parts.append(f'<path class="error {_colour(line)}" d="{ends}"/>')
    if (line.markers and len(series.x) <= 60) or len(series.x) == 1:
        notes = line.notes or ("",) * len(series.x)
        for place, value, note in zip(series.x, series.y, notes, strict=True):
            remark = f", {note}" if note else ""
            title = escape(f"{line.label}: {value:.4g} at {place:,.4g}{remark}")
            circle = f'cx="{x(place):.1f}" cy="{y(value):.1f}" r="3"'
            parts.append(
                f'<circle class="dot {_colour(line)}" {circle}><title>{title}</title></circle>'
            )
    return "".join(parts)


def _path(series: Series, x: Scale, y: Scale) -> str:
    kept = thinned(series)
    points = (f"{x(a):.1f} {y(b):.1f}" for a, b in zip(kept.x, kept.y, strict=True))
    return "M" + "L".join(points)


def _bars(panel: Bars) -> list[str]:
    longest = max(sum(bar.parts.values()) for bar in panel.bars) or 1.0
    bottom = TOP + 8 + ROW * len(panel.bars)
    x = Scale(0.0, longest, 0, WIDTH - RIGHT)
    places = ticks(0.0, longest)
    parts = [_text(0, 14, panel.y_label, "axis"), _x_axis(places, x, bottom, panel.x_label)]
    for index, bar in enumerate(panel.bars):
        top = TOP + 8 + ROW * index
        parts.append(_text(0, top + 12, _short(bar.label), "tick strong"))
        parts.append(_text(WIDTH - RIGHT, top + 12, bar.note, "tick end"))
        start = 0.0
        for phase, seconds in bar.parts.items():
            place, width = x(start), x(start + seconds) - x(start)
            title = escape(f"{phase}: {seconds:.3g} s a step")
            parts.append(
                f'<rect class="{phase_class(phase)}" x="{place:.1f}" y="{top + 20}" '
                f'width="{width:.1f}" height="{THICKNESS}"><title>{title}</title></rect>'
            )
            start += seconds
    return parts


def _short(label: str, most: int = 28) -> str:
    """A label that leaves room for a remark: the middle of a long one is left out."""
    return label if len(label) <= most else f"{label[: most - 16]}…{label[-15:]}"


def phase_class(phase: str) -> str:
    """The style of a phase; those that are not the paper's share one."""
    return f"phase {phase if phase in PHASES else 'other'}"


def run_class(colour: int) -> str:
    """The style of a subject."""
    return f"c{colour % COLOURS}" + (" again" if colour >= COLOURS else "")


def _colour(line: Line) -> str:
    """The style of a curve; `s` and a number is what a switch hides."""
    return f"{run_class(line.colour)} s{line.colour}"


def _x_axis(places: Sequence[float], x: Scale, bottom: float, label: str) -> str:
    parts = [f'<path class="base" d="M{x.start} {bottom}H{x.end}"/>']
    for value, text in zip(places, written(places), strict=True):
        near_end = x(value) > x.end - 12
        anchor = "end" if near_end else "middle" if x(value) > 8 else ""
        parts.append(f'<path class="base" d="M{x(value):.1f} {bottom}v4"/>')
        parts.append(_text(x.end if near_end else x(value), bottom + 19, text, f"tick {anchor}"))
    parts.append(_text((x.start + x.end) / 2, bottom + 40, label, "axis middle"))
    return "".join(parts)


def _text(x: float, y: float, text: str, style: str, hint: str = "") -> str:
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{escape(text)}{title}</text>'
