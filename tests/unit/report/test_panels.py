"""Curves as figures show them: smoothed and thinned."""

from metis.report.panels import running_mean, thinned
from metis.run.recorded import Series


def test_a_running_mean_is_centred_and_narrows_at_the_ends():
    series = Series((1.0, 2.0, 3.0, 4.0), (0.0, 3.0, 6.0, 0.0))
    assert running_mean(series, 3).y == (1.5, 3.0, 3.0, 3.0)
    assert running_mean(series, 1) == series


def test_thinning_keeps_the_ends_and_the_extremes():
    values = [0.0] * 5000
    values[1234], values[4321] = 1.0, -1.0
    series = Series(tuple(map(float, range(5000))), tuple(values))
    kept = thinned(series, 100)
    assert len(kept.x) <= 104 and {kept.x[0], kept.x[-1], 1234.0, 4321.0} <= {0.0, 4999.0, *kept.x}
    assert (min(kept.y), max(kept.y)) == (-1.0, 1.0)
    assert thinned(series, 5000) is series
