"""Curves over generated tokens: accuracy, and below it the share of groups with mixed rewards."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from when_it_pays import standalone

from metis.comparisons.crossing import Floats
from metis.comparisons.measures import MeasuredVariant
from metis.report.panels import Axes, Line
from metis.report.svg import HEIGHT, WIDTH, draw
from metis.run.recorded import Recorded, Series

SPENT = "generated tokens"
KEYS = 26
"""The height of the line of names."""


def pair(
    variants: Mapping[str, MeasuredVariant], tested: str, trained: str, cover: tuple[float, ...]
) -> tuple[Axes, Axes]:
    """The accuracy of variants by their names, and their informative groups; thin lines are runs,
    of which thick ones are the means."""
    accuracy, informative = [], []
    for colour, (name, variant) in enumerate(variants.items()):
        spent = variant.spent[SPENT]
        signal = np.array([list(shares(record, variant.steps)) for record in variant.records])
        accuracy.append(_line(name, colour, spent, variant.accuracy))
        informative.append(_line(name, colour, spent[:, 1:], signal))
    return (
        Axes(tested, SPENT, tuple(accuracy), cover=cover, percent=True),
        Axes(trained, SPENT, tuple(informative), cover=(0.0,), percent=True),
    )


def shares(record: Recorded, steps: Sequence[int]) -> Iterator[float]:
    """The mean share of informative groups between each test and the next."""
    series = record.series("batch/informative")
    for before, test in itertools.pairwise(steps):
        between = [y for x, y in zip(*series, strict=True) if before < x <= test]
        yield float(np.mean(between))


def _line(name: str, colour: int, spent: Floats, values: Floats) -> Line:
    thin = tuple(Series(tuple(x), tuple(y)) for x, y in zip(spent, values, strict=True))
    mean = Series(tuple(spent.mean(axis=0)), tuple(values.mean(axis=0)))
    return Line(name, colour, mean, markers=True, thin=thin)


def grid(columns: Sequence[tuple[Axes, Axes]], said: str) -> str:
    """Pairs of charts side by side below the names of their curves, as an SVG file."""
    placed = "".join(
        f'<svg x="{WIDTH * column}" y="{KEYS + HEIGHT * row}" width="{WIDTH}" height="{HEIGHT}"'
        + draw(axes).removeprefix("<svg")
        for column, both in enumerate(columns)
        for row, axes in enumerate(both)
    )
    keys = "".join(
        f'<tspan class="c{line.colour}" dx="18">● {line.label}</tspan>'
        for line in columns[0][0].lines
    )
    wide, high = WIDTH * len(columns), KEYS + 2 * HEIGHT
    box = f'viewBox="0 0 {wide} {high}" role="img" aria-label="{said}"'
    key = f'<text x="-18" y="10" class="key">{keys}</text>'
    return standalone(f"<svg {box}>{placed}</svg>", key, wide, 920, high)
