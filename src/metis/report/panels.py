"""Charts as data: curves over an axis, smoothed and thinned, stacked bars, and figures of them."""

import math
from dataclasses import dataclass, field

from metis.run.recorded import Series


@dataclass(frozen=True)
class Line:
    """One curve in the colour of its subject; `window` above 1 adds a running mean.

    `notes` are said of the single places, `error` is a bar at each, `band` the width of a shade on
    either side, which is cut to the values `within`; `thin` are the curves that this one averages.
    """

    label: str
    colour: int
    series: Series
    error: tuple[float, ...] = ()
    dashed: bool = False
    markers: bool = False
    window: int = 1
    notes: tuple[str, ...] = ()
    band: tuple[float, ...] = ()
    within: tuple[float, float] = (-math.inf, math.inf)
    thin: tuple[Series, ...] = ()

    @property
    def edges(self) -> tuple[Series, Series]:
        """The upper and the lower edge of the band."""
        x, y = self.series
        least, most = self.within
        upper = (min(value + width, most) for value, width in zip(y, self.band, strict=True))
        lower = (max(value - width, least) for value, width in zip(y, self.band, strict=True))
        return Series(x, tuple(upper)), Series(x, tuple(lower))


@dataclass(frozen=True)
class Axes:
    """Curves over a common axis; the vertical one covers at least the values in `cover`.

    across    values that the horizontal axis covers; without any it begins at 0
    note      a remark on the whole
    chance    distances from the reference that say nothing yet, a band around it
    spans     stretches of the horizontal axis that are marked
    diagonal  the name of the line on which both axes are equal; without one it is not drawn
    meaning   what is drawn, shown where a pointer rests on its name
    """

    y_label: str
    x_label: str
    lines: tuple[Line, ...]
    cover: tuple[float, ...] = ()
    percent: bool = False
    reference: float | None = None
    reference_label: str = ""
    whole: bool = True
    across: tuple[float, ...] = ()
    note: str = ""
    chance: Series = field(default_factory=Series)
    chance_label: str = ""
    spans: tuple[tuple[float, float], ...] = ()
    spans_label: str = ""
    diagonal: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Bar:
    """One subject: seconds by phase, and a remark."""

    label: str
    note: str
    parts: dict[str, float]


@dataclass(frozen=True)
class Bars:
    """Stacked bars, one a subject."""

    y_label: str
    x_label: str
    bars: tuple[Bar, ...]

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(phase for bar in self.bars for phase in bar.parts))


@dataclass(frozen=True)
class Figure:
    """Panels with a title, a caption, and a name for files."""

    name: str
    title: str
    caption: str
    panels: tuple[Axes | Bars, ...]


def running_mean(series: Series, window: int) -> Series:
    """The mean of about `window` values around every place; of fewer at the ends."""
    means = []
    for place in range(len(series.y)):
        values = series.y[max(0, place - window // 2) : place + window // 2 + 1]
        means.append(math.fsum(values) / len(values))
    return Series(series.x, tuple(means))


def thinned(series: Series, most: int = 800) -> Series:
    """At most about `most` points: of every stretch its lowest and its highest stay."""
    if len(series.x) <= most:
        return series
    size = math.ceil(2 * len(series.x) / most)
    kept = {0, len(series.x) - 1}
    for start in range(0, len(series.x), size):
        stretch = range(start, min(start + size, len(series.x)))
        kept |= {min(stretch, key=series.y.__getitem__), max(stretch, key=series.y.__getitem__)}
    places = sorted(kept)
    return Series(tuple(series.x[i] for i in places), tuple(series.y[i] for i in places))
