"""Predictions over time: mean v̂ and v of each step, on either kind of slot."""

from pathlib import Path

import pytest

from metis.report import forecast, subjects
from metis.report.outcomes import Outcome
from metis.report.subjects import Subject, each
from metis.run.recorded import Recorded


@pytest.fixture
def shown(monkeypatch):
    def figure(*outcomes, target="variance"):
        config = {"curriculum": {"name": "metis", "judge": {"target": target}}}
        runs = [Recorded(Path(), config, {}, [], [], f"{i}") for i in range(len(outcomes))]
        monkeypatch.setattr(subjects, "read", lambda run: outcomes[int(run.label)])
        return forecast.figure(each(runs), window=1)

    return figure


STEPS = [
    Outcome(1, 0.1, 0.2, True, True),
    Outcome(1, 0.3, 0.0, True, True),
    Outcome(2, 0.2, 0.1, True, True),
    Outcome(2, 0.25, 0.15, False, True),
]


def test_a_step_is_its_mean_and_predictions_are_dashed(shown):
    uniform, chosen = shown(STEPS).panels
    realised, predicted = uniform.lines
    assert realised.series == ((1.0, 2.0), (pytest.approx(0.1), 0.1))
    assert predicted.series == ((1.0, 2.0), (pytest.approx(0.2), 0.2)) and predicted.dashed
    assert [line.label for line in uniform.lines] == ["realised v", "predicted v̂"]
    assert chosen.lines[0].series == ((2.0,), (0.15,))


def test_several_subjects_have_their_names_and_colours(shown):
    panel = shown(STEPS[:3], STEPS[:1]).panels[0]
    assert [(line.label, line.colour) for line in panel.lines] == [
        ("0", 0),
        ("predicted v̂", 0),
        ("1", 1),
        ("predicted v̂", 1),
    ]


def test_ranks_are_no_variances_and_nothing_is_no_figure(shown):
    assert shown(STEPS, target="rank") is None
    assert shown([]) is None


def test_an_arm_pools_the_groups_of_its_runs(monkeypatch):
    monkeypatch.setattr(subjects, "read", lambda run: STEPS[:1])
    run = Recorded(Path(), {}, {}, [], [])
    assert len(Subject("arm", 0, (run, run)).outcomes) == 2
