"""Curves as figures show them: smoothed, and with no more points than can be seen."""

import math

from metis.run.recorded import Series


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
