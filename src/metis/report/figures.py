"""The figures as PNG files, for slides and papers; needs matplotlib."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metis import files
from metis.report import svg
from metis.report.charts import NAMES
from metis.report.curves import running_mean, thinned
from metis.report.panels import Axes, Bars, Figure, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Plot
    from matplotlib.figure import Figure as Sheet

SOFT = "#5a6373"
MOST_COLUMNS = 3
COLOURS = ("#0072b2", "#d55e00", "#00855f", "#b1508a", "#b07a00", "#2f96d0")
PHASE_COLOURS = {
    "judge": "#d55e00",
    "select": "#b1508a",
    "rollout": "#5a9bd4",
    "reward": "#4bb293",
    "update": "#8a94a6",
    "other": "#c9ced8",
}


def write(figures: Sequence[Figure], folder: Path) -> int | None:
    """Write one PNG a figure and drop those of an earlier report; None without matplotlib."""
    if find_spec("matplotlib") is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        with files.atomic(folder / f"{figure.name}.png") as file:
            file.write(_png(figure))
    for name in set(NAMES) - {figure.name for figure in figures}:
        (folder / f"{name}.png").unlink(missing_ok=True)
    return len(figures)


def _png(figure: Figure) -> bytes:
    import io

    from matplotlib.figure import Figure as Sheet

    count = len(figure.panels)
    columns = 2 if count == 4 else min(count, MOST_COLUMNS)
    rows = -(-count // columns)
    size = 5.2 * columns, 3.5 * rows
    sheet = Sheet(figsize=size, dpi=200 if rows == 1 else 120, layout="constrained")
    for index, panel in enumerate(figure.panels):
        plot = sheet.add_subplot(rows, columns, index + 1)
        plot.spines[["top", "right"]].set_visible(False)
        _bars(plot, panel) if isinstance(panel, Bars) else _axes(plot, panel)
    _legend(sheet, [plot for plot in sheet.axes if plot.get_legend() is None])
    sheet.suptitle(figure.title, fontsize=11, fontweight="bold", x=0.02, ha="left")
    content = io.BytesIO()
    sheet.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _legend(sheet: "Sheet", plots: Sequence["Plot"]) -> None:
    """One legend below the panels that have none; nothing where there is only one name."""
    named: dict[str, Any] = {}
    for plot in plots:
        handles, labels = plot.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    if len(named) > 1:
        sheet.legend(
            named.values(),
            named.keys(),
            loc="outside lower center",
            ncols=2 * len(sheet.axes),
            frameon=False,
            fontsize=8,
        )


def _axes(plot: "Plot", axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

    plot.grid(axis="y", color="#e3e6eb", linewidth=0.8)
    plot.set_axisbelow(True)
    _ground(plot, axes)
    for line in axes.lines:
        _line(plot, line)
    plot.set_ylim(*svg.extent(axes))
    plot.set_xlim(*svg.bounds(axes.across)) if axes.across else plot.set_xlim(left=0)
    plot.set_title(axes.note, loc="right", fontsize=8, color=SOFT)
    plot.xaxis.set_major_locator(MaxNLocator(6, integer=axes.whole))
    if svg.unit(svg.stretch(axes))[1]:
        plot.xaxis.set_major_formatter(EngFormatter(sep=""))
    if axes.percent:
        plot.yaxis.set_major_formatter(PercentFormatter(1.0))
    plot.set_xlabel(axes.x_label)
    plot.set_ylabel(axes.y_label)
    plot.tick_params(labelsize=9)


def _ground(plot: "Plot", axes: Axes) -> None:
    """Draw all but the curves: marked stretches, the band of chance, dashed lines."""
    style = (0, (5, 4))
    for start, end in axes.spans:
        strip = {"color": "#e0b43c", "lw": 0, "clip_on": False}
        plot.axvspan(max(0.0, start), end, 1.01, 1.03, label=axes.spans_label, **strip)
    if axes.chance.x:
        upper, lower = svg.funnel(axes)
        plot.fill(
            (*upper.x, *lower.x[::-1]),
            (*upper.y, *lower.y[::-1]),
            color=SOFT,
            alpha=0.14,
            lw=0,
            label=axes.chance_label,
        )
    if axes.reference is not None:
        label = axes.reference_label
        plot.axhline(axes.reference, color=SOFT, linewidth=1, linestyle=style, label=label)
    if axes.diagonal:
        ends = svg.diagonal(axes)
        plot.plot(ends, ends, color=SOFT, linewidth=1, linestyle=style, label=axes.diagonal)


def _line(plot: "Plot", line: Line) -> None:
    colour = COLOURS[line.colour % len(COLOURS)]
    series = line.series
    if line.window > 1:
        raw = thinned(series)
        plot.plot(raw.x, raw.y, color=colour, linewidth=0.6, alpha=0.35)
        series = running_mean(series, line.window)
    style = "--" if line.dashed else ":" if line.colour >= len(COLOURS) else "-"
    marker = "o" if line.markers or len(series.x) == 1 else ""
    width = 1.2 if line.dashed else 1.8
    if line.band:
        upper, lower = svg.shade(line)
        edges = (*upper.x, *lower.x[::-1]), (*upper.y, *lower.y[::-1])
        plot.fill(*edges, color=colour, alpha=0.15, lw=0)
    if line.error:
        plot.errorbar(series.x, series.y, line.error, fmt="none", ecolor=colour, alpha=0.6)
    series = series if line.error else thinned(series)
    label = _safe(line.label)
    plot.plot(series.x, series.y, style, color=colour, marker=marker, ms=3.5, lw=width, label=label)


def _bars(plot: "Plot", panel: Bars) -> None:
    places = range(len(panel.bars))
    starts = [0.0] * len(panel.bars)
    for phase in panel.phases:
        seconds = [bar.parts.get(phase, 0.0) for bar in panel.bars]
        colour = PHASE_COLOURS.get(phase, PHASE_COLOURS["other"])
        plot.barh(places, seconds, 0.5, starts, color=colour, label=_safe(phase))
        starts = [start + second for start, second in zip(starts, seconds, strict=True)]
    names = [f"{_safe(bar.label)}\n{bar.note}" for bar in panel.bars]
    plot.set_yticks(places, names, fontsize=8)
    plot.invert_yaxis()
    plot.set_ylim(max(len(panel.bars) - 0.4, 1.0), -0.6)
    plot.set_xlabel(f"{panel.y_label}, {panel.x_label}")
    plot.tick_params(axis="x", labelsize=9)
    plot.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def _safe(text: str) -> str:
    """A name as it is: no mathematics in dollars, and no underscore that hides it."""
    return "\u200b" + text.replace("$", "\\$") if text.startswith("_") else text.replace("$", "\\$")
