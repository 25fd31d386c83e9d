"""Subjects of a report: one run as it is, several as their mean with its standard error."""

from pathlib import Path

import numpy as np
import pytest

from metis.report.subjects import Subject, averaged, each
from metis.run.recorded import Recorded, Series


def run(*values, label="run"):
    rows = [{"step": step, "m": value} for step, value in enumerate(values, start=1)]
    return Recorded(Path(), {}, {}, rows, [], label)


def metric(run):
    return run.series("m")


def test_one_run_keeps_its_steps_and_gets_a_running_mean():
    (subject,) = each([run(1.0, 2.0, 6.0)])
    line = subject.line(metric, window=3)
    assert line.series.y == (1.0, 2.0, 6.0) and line.window == 3 and not line.band


def test_several_runs_are_their_mean_with_a_band_of_one_standard_error():
    variant = Subject("variant", 1, (run(1.0, 2.0), run(3.0, 6.0), run(5.0, 7.0)))
    line = variant.line(metric)
    assert line.series == Series((1.0, 2.0), (3.0, 5.0)) and line.window == 1
    assert line.band == pytest.approx([2 / 3**0.5, np.std([2, 6, 7], ddof=1) / 3**0.5])


def test_runs_are_smoothed_before_they_are_averaged():
    line = Subject("variant", 0, (run(0.0, 3.0, 0.0), run(0.0, 9.0, 0.0))).line(metric, window=3)
    assert line.series.y == (3.0, 2.0, 3.0)


def test_the_mean_is_over_places_that_all_have():
    mean, band = averaged([Series((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)), Series((2.0,), (4.0,))])
    assert mean == Series((2.0,), (3.0,)) and band == (1.0,)
    assert averaged([Series((1.0,), (2.0,))]) == (Series((1.0,), (2.0,)), ())


def test_runs_without_the_metric_are_left_out():
    bare = Recorded(Path(), {}, {}, [{"step": 1}], [])
    assert Subject("variant", 0, (run(1.0), bare)).line(metric).series == Series((1.0,), (1.0,))
    assert not Subject("variant", 0, (bare, bare)).line(metric).series.x
    assert Subject("variant", 0, (bare, run(2.0))).has("m")
    assert Subject("variant", 0, (bare,)).mean(lambda run: run.judge_share) is None
