"""Learning curves of the runs on mathematics: each run's validations, and their means."""

from pathlib import Path

import training_tables
from when_it_pays import standalone

from metis.report.panels import Axes, Line
from metis.report.svg import HEIGHT, WIDTH, draw
from metis.run.recorded import Series

SETS = {"math": "MATH", "dapo-hard": "the harder part of DAPO"}
DRAWN = {"readout": "readout", "uniform": "uniform sampling", "probe": "probe"}
HIGHEST, LOWEST = 0.50, 0.34
KEY = 62, 50


def figure(folder: Path) -> str:
    """Both training sets side by side, as an SVG file."""
    charts = [draw(axes(folder / name, title)) for name, title in SETS.items()]
    placed = (
        f'<svg x="{WIDTH * place}" width="{WIDTH}" height="{HEIGHT}"{chart.removeprefix("<svg")}'
        for place, chart in enumerate(charts)
    )
    keys = "".join(
        f'<text x="{KEY[0]}" y="{KEY[1] + 17 * place}" class="key c{place}">● {name}</text>'
        for place, name in enumerate(DRAWN.values())
    )
    said = "Accuracy on 200 problems of MATH-500 by step of training, every run and means over runs"
    box = f'viewBox="0 0 {WIDTH * len(SETS)} {HEIGHT}" role="img" aria-label="{said}"'
    return standalone(f"<svg {box}>{''.join(placed)}</svg>", keys, WIDTH * len(SETS), 920)


def axes(folder: Path, title: str) -> Axes:
    """Validations that all runs have; thin lines are runs, of which thick ones are the means."""
    curves = training_tables.curves(folder)
    steps = tuple(map(float, curves))
    lines = []
    for colour, (name, label) in enumerate(DRAWN.items()):
        runs = list(zip(*(tests[name] for tests in curves.values()), strict=True))
        mean = tuple(sum(at) / len(at) for at in zip(*runs, strict=True))
        thin = tuple(Series(steps, run) for run in runs)
        label = f"{label}, {len(runs)} runs"
        lines.append(Line(label, colour, Series(steps, mean), markers=True, thin=thin))
    return Axes(
        f"accuracy, trained on {title}", "step", tuple(lines), cover=(LOWEST, HIGHEST), percent=True
    )
