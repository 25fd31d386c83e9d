"""The charts of the judge: which curves they have, and what goes with them."""

from pathlib import Path

import pytest

from metis.report import calibration, charts, subjects, svg
from metis.report.outcomes import PredictedOutcome
from metis.report.subjects import Subject, each
from metis.run.recorded import Recorded


@pytest.fixture
def figure(monkeypatch):
    def make(*outcomes, target=None):
        judge = {} if target is None else {"judge": {"target": target}}
        config = {"curriculum": {"name": "metis", **judge}}
        runs = [run(label=f"run {i}", config=config) for i in range(len(outcomes))]
        monkeypatch.setattr(subjects, "read_outcomes", lambda run: outcomes[int(run.label[4:])])
        return calibration.figure(each(runs))

    return make


def run(metrics=(), label="run 0", config=None):
    return Recorded(Path(), config or {}, {}, list(metrics), [], label)


def batches(steps, uniform, chosen, binary=True):
    """Steps in which the judge is right about a uniform half and a chosen one."""
    return [
        PredictedOutcome(step, v, v, i < uniform, binary)
        for step in range(1, steps + 1)
        for i in range(uniform + chosen)
        for v in [0.25 * (i + 1) / (uniform + chosen)]
    ]


def test_one_run_has_a_panel_for_each_half_with_both_kinds_apart(figure):
    early, late = figure(batches(8, 4, 4)).panels
    assert (early.y_label, late.y_label) == ("realised v, steps 1–4", "realised v, steps 5–8")
    assert early.note == "16 uniform, 16 chosen"
    assert [line.label for line in early.lines] == ["uniform slots", "chosen by the judge"]
    assert [line.colour for line in early.lines] == [0, 1]
    for line in early.lines:
        assert line.series.x == pytest.approx(line.series.y)
        assert len(line.error) == len(line.notes) == len(line.series.x)
    assert early.lines[0].notes[0].endswith("groups")
    assert svg.extent(early) == svg.extent(late) and svg.stretch(early) == svg.stretch(late)


def test_a_large_run_has_no_more_points_than_a_small_one(figure):
    for panel in figure(batches(200, 26, 230)).panels:
        assert all(len(line.series.x) <= 8 for line in panel.lines)


def test_one_step_is_one_panel_and_no_outcomes_are_none(figure):
    (panel,) = figure(batches(1, 1, 0)).panels
    assert panel.y_label == "realised v, step 1"
    assert panel.lines[0].notes == ("1 group",)
    assert svg.draw(panel).count("<circle") == 1
    assert figure([]) is None


def test_runs_without_uniform_slots_show_what_was_chosen(figure):
    (line,) = figure(batches(4, 0, 4)).panels[0].lines
    assert line.label == "chosen by the judge"


def test_several_runs_keep_their_colours_and_dash_what_was_chosen(figure):
    early, late = figure(batches(8, 4, 4), [], batches(4, 4, 4)).panels
    assert (early.y_label, late.y_label) == ("realised v, first half", "realised v, second half")
    assert [(line.label, line.colour, line.dashed) for line in early.lines] == [
        ("run 0", 0, False),
        ("run 2", 2, False),
        ("chosen by the judge", 0, True),
        ("chosen by the judge", 2, True),
    ]
    assert not any(line.error for line in early.lines)


@pytest.mark.parametrize(
    ("target", "binary", "diagonal"),
    [
        (None, True, True),
        ("auto", True, True),
        ("auto", False, False),
        ("variance", False, True),
        ("rank", True, False),
    ],
)
def test_predictions_of_ranks_have_no_diagonal(figure, target, binary, diagonal):
    panel = figure(batches(4, 4, 4, binary), target=target).panels[0]
    assert bool(panel.diagonal) is diagonal
    assert svg.draw(panel).count('class="reference"') == diagonal


def test_the_diagonal_stays_within_both_axes(figure):
    flat = [PredictedOutcome(1, 0.2 + i / 1000, 0.01, True, True) for i in range(20)]
    (panel,) = figure(flat).panels
    start, end = svg.diagonal(panel)
    assert svg.stretch(panel)[0] <= start < end <= svg.extent(panel)[1]


SKILL = {
    "judge/spearman": 0.3,
    "judge/spearman_error": 0.25,
    "judge/lift": 1.5,
    "judge/realised_lift": 0.04,
    "judge/realised_lift_z": 1.6,
    "select/trial": 1.0,
}


def skill(*runs):
    (found,) = [figure for figure in charts.figures(each(runs)) if figure.name == "skill"]
    return found


def test_skill_is_drawn_with_the_band_of_chance_and_the_trials_of_one_run():
    rows = [{"step": step, **SKILL, "select/trial": float(step < 3)} for step in range(1, 5)]
    found = skill(run(rows))
    correlation, lift = found.panels
    assert correlation.chance.y == (0.5,) * 4
    assert lift.chance.y == pytest.approx((0.05,) * 4)
    assert correlation.spans == lift.spans == ((0.5, 2.5),)
    assert charts.LUCK in found.caption
    upper, lower = svg.funnel(correlation)
    low, high = svg.extent(correlation)
    assert min(lower.y) >= low and max(upper.y) <= high


def test_several_runs_have_neither_band_nor_trials():
    found = skill(run([{"step": 1, **SKILL}]), run([{"step": 1, **SKILL}], "run 1"))
    assert not any(panel.chance.x or panel.spans for panel in found.panels)
    assert charts.LUCK not in found.caption


def test_runs_made_before_there_were_trials_show_what_they_have():
    old = {"judge/spearman": 0.3, "judge/lift": 1.5, "select/guarded": 1.0}
    labels = [panel.y_label for panel in skill(run([{"step": 1, **old}])).panels]
    assert labels == ["rank correlation of v̂ with v", "lift: v of the top predictions / mean v"]
    both = skill(run([{"step": 1, **old}]), run([{"step": 1, **SKILL}], "run 1"))
    assert [[line.label for line in panel.lines] for panel in both.panels] == [
        ["run 0", "run 1"],
        ["run 1"],
        ["run 0"],
    ]


@pytest.fixture
def shown(monkeypatch):
    def figure(*outcomes, target="variance"):
        config = {"curriculum": {"name": "metis", "judge": {"target": target}}}
        runs = [Recorded(Path(), config, {}, [], [], f"{i}") for i in range(len(outcomes))]
        monkeypatch.setattr(subjects, "read_outcomes", lambda run: outcomes[int(run.label)])
        return calibration.forecast_figure(each(runs), window=1)

    return figure


STEPS = [
    PredictedOutcome(1, 0.1, 0.2, True, True),
    PredictedOutcome(1, 0.3, 0.0, True, True),
    PredictedOutcome(2, 0.2, 0.1, True, True),
    PredictedOutcome(2, 0.25, 0.15, False, True),
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
    monkeypatch.setattr(subjects, "read_outcomes", lambda run: STEPS[:1])
    run = Recorded(Path(), {}, {}, [], [])
    assert len(Subject("arm", 0, (run, run)).outcomes) == 2
