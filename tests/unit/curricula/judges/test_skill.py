"""The numbers of a judge's skill: by hand, and by their laws."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.core import Prompt
from metis.curricula.judges import Failure, Prediction
from metis.curricula.judges.skill import (
    FLAT_STEPS,
    PredictionOutcome,
    Reliability,
    Skill,
    auroc_informative,
    climatology,
    lift,
    noted,
    pearson,
    prediction_metrics,
    ranks,
    reliability,
    skill,
    spearman,
    spread_notice,
    trim,
)

deterministic = settings(derandomize=True, deadline=None)
levels = st.integers(0, 10)
paired = st.lists(st.tuples(levels, levels), min_size=2, max_size=30)
variances = st.lists(st.floats(0.01, 0.25), min_size=1, max_size=20)


def test_pearson_by_hand():
    assert pearson([1, 2, 3], [2, 4, 6]) == pytest.approx(1.0)
    assert pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert pearson([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)


@pytest.mark.parametrize("correlation", [pearson, spearman])
@pytest.mark.parametrize(("x", "y"), [([], []), ([1], [2]), ([1, 1], [1, 2]), ([1, 2], [1, 1])])
def test_correlation_is_undefined_without_variation(correlation, x, y):
    assert correlation(x, y) is None


@deterministic
@given(paired)
def test_correlations_are_symmetric_and_between_minus_one_and_one(pairs):
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    for correlation in (pearson, spearman):
        value = correlation(x, y)
        assert value == correlation(y, x)
        assert value is None or -1.0 <= value <= 1.0


def test_ranks_share_the_mean_of_ties():
    assert ranks([0.3, 0.1, 0.3, 0.2]).tolist() == [2.5, 0.0, 2.5, 1.0]
    assert ranks([5, 5, 5]).tolist() == [1.0, 1.0, 1.0]
    assert ranks([]).tolist() == []


def test_spearman_with_ties_by_hand():
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5.0))
    assert spearman([1, 2, 3, 4], [1, 4, 9, 16]) == pytest.approx(1.0)
    assert spearman([1, 1, 2, 2], [1, 2, 1, 2]) == pytest.approx(0.0)


@deterministic
@given(paired)
def test_spearman_ignores_increasing_transformations_and_turns_with_decreasing_ones(pairs):
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    value = spearman(x, y)
    assert spearman([math.exp(a) for a in x], [b**3 - 7 for b in y]) == value
    turned = spearman([-a for a in x], y)
    assert turned == (None if value is None else pytest.approx(-value))


def test_skill_by_hand():
    assert skill([0.1, 0.2], [0.1, 0.25], [0.2, 0.2]) == pytest.approx(1 - 0.0025 / 0.0125)
    assert skill([0.25, 0.0], [0.0, 0.25], [0.125, 0.125]) == pytest.approx(-3.0)


@deterministic
@given(variances)
def test_skill_is_zero_for_climatology_and_one_for_a_perfect_judge(truth):
    climatology = [0.0] * len(truth)
    assert skill(climatology, truth, climatology) == 0.0
    assert skill(truth, truth, climatology) == 1.0


def test_skill_is_undefined_without_outcomes_or_against_a_perfect_reference():
    assert skill([], [], []) is None
    assert skill([0.1], [0.2], [0.2]) is None


def test_lift_by_hand():
    predictions, outcomes = [0.25, 0.2, 0.1, 0.0], [0.25, 0.15, 0.05, 0.15]
    assert lift(predictions, outcomes, 0.25) == pytest.approx(0.25 / 0.15)
    assert lift(predictions, outcomes, 0.5) == pytest.approx(0.2 / 0.15)
    assert lift(predictions, outcomes, 1.0) == pytest.approx(1.0)


def test_lift_counts_ties_at_the_cut_in_proportion():
    assert lift([0.25, 0.1, 0.1, 0.0], [0.2, 0.1, 0.3, 0.0], 0.5) == pytest.approx(0.2 / 0.15)
    assert lift([0.1] * 4, [0.25, 0.0, 0.1, 0.0], 0.25) == pytest.approx(1.0)


def test_lift_takes_at_least_one_prompt():
    assert lift([0.2, 0.1], [0.3, 0.1], 0.01) == pytest.approx(1.5)


def test_lift_is_undefined_without_outcomes_or_signal():
    assert lift([], [], 0.5) is None
    assert lift([0.1, 0.2], [0.0, 0.0], 0.5) is None


@deterministic
@given(variances, st.floats(0.0, 1.0))
def test_lift_of_a_perfect_judge_is_at_least_one(truth, share):
    value = lift(truth, truth, share)
    assert value is not None
    assert value >= 1.0 - 1e-9


def test_auroc_by_hand():
    assert auroc_informative([0.2, 0.1, 0.0], [0.25, 0.1, 0.0]) == 1.0
    assert auroc_informative([0.0, 0.1, 0.2], [0.25, 0.1, 0.0]) == 0.0
    assert auroc_informative([0.2, 0.0, 0.1, 0.0], [0.1, 0.1, 0.0, 0.0]) == pytest.approx(2.5 / 4)


@pytest.mark.parametrize("outcomes", [[0.0, 0.1], [0.0, 0.0, 0.2, 0.0], [0.25, 0.1, 0.0]])
def test_auroc_of_a_constant_judge_is_a_half(outcomes):
    assert auroc_informative([0.1] * len(outcomes), outcomes) == 0.5


def test_auroc_takes_a_variance_of_rounding_error_for_uninformative():
    assert auroc_informative([0.2, 0.1], [0.25, 1e-9]) == 1.0


@pytest.mark.parametrize("outcomes", [[], [0.1, 0.2], [0.0, 0.0]])
def test_auroc_is_undefined_without_both_kinds(outcomes):
    assert auroc_informative([0.1] * len(outcomes), outcomes) is None


def test_reliability_by_hand():
    rows = reliability([0.0, 0.12, 0.13, 0.25], [0.0, 0.1, 0.2, 0.25], [0.0, 0.05, 0.125, 0.25])
    assert rows == [
        Reliability(0.0, 0.0, 1),
        Reliability(0.125, pytest.approx(0.15), 2),
        Reliability(0.25, 0.25, 1),
    ]


def test_reliability_of_nothing_is_empty():
    assert reliability([], [], [0.0, 0.25]) == []


@deterministic
@given(paired)
def test_reliability_counts_every_outcome_once(pairs):
    rows = reliability([a for a, _ in pairs], [b for _, b in pairs], [0.0, 3.0, 10.0])
    assert sum(row.outcomes for row in rows) == len(pairs)
    total = sum(row.mean_v * row.outcomes for row in rows)
    assert total == pytest.approx(sum(b for _, b in pairs))


def predictions(*v_hats, failure=None):
    return [
        Prediction(Prompt(f"p{i}", "?"), v_hat, v_hat, failure if v_hat is None else None)
        for i, v_hat in enumerate(v_hats)
    ]


def test_what_is_said_of_all_candidates_by_hand():
    said = predictions(0.05, 0.15, 0.15, None, failure=Failure.NO_BOX)
    metrics = prediction_metrics(said)
    assert metrics["judge/failure_rate"] == metrics["judge/failure_no_box"] == 0.25
    assert metrics["judge/failure_cut_off"] == 0.0
    assert metrics["judge/v_hat_mean"] == pytest.approx(0.35 / 3)
    assert metrics["judge/v_hat_distinct"] == 2.0
    odds = [math.log(0.2 / 0.8), math.log(0.6 / 0.4), math.log(0.6 / 0.4)]
    mean = sum(odds) / 3
    assert metrics["judge/spread"] == pytest.approx((sum((x - mean) ** 2 for x in odds) / 3) ** 0.5)
    assert prediction_metrics([]) == {}
    nothing = prediction_metrics(predictions(None, None, failure=Failure.CUT_OFF))
    assert "judge/spread" not in nothing and nothing["judge/failure_cut_off"] == 1.0


def test_the_spread_does_not_shrink_as_predictions_near_zero():
    high = prediction_metrics(predictions(0.02, 0.01))["judge/spread"]
    low = prediction_metrics(predictions(0.0002, 0.0001))["judge/spread"]
    assert low == pytest.approx(high, rel=0.1)


def test_outcomes_of_uniform_slots_are_noted_with_their_rank_and_target():
    before = [
        PredictionOutcome(0, 0.1, 0.5, 0.2, 0.2, None),
        PredictionOutcome(1, 0.1, 0.5, 0.1, 0.1, 0.2),
    ]
    said = predictions(0.05, 0.15, 0.25, None)
    realised = [("p1", 0.2), ("p3", 0.1), ("p2", 0.0)]
    [*kept, first, second] = noted(before, said, realised, {"p1": 0.22}, 2)
    assert kept == before
    reference = pytest.approx((0.2 + 0.1) / 2)
    assert first == PredictionOutcome(2, 0.15, 0.5, 0.2, 0.22, reference)
    assert second == PredictionOutcome(2, 0.25, pytest.approx(2.5 / 3), 0.0, 0.0, reference)


def test_the_reference_is_the_mean_of_ten_steps():
    outcomes = [PredictionOutcome(step, 0.1, 0.5, 0.0, step / 100, None) for step in range(20)]
    assert climatology(outcomes, 20) == pytest.approx(sum(range(10, 20)) / 1000)
    assert climatology(outcomes, 99) is None


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 20))
@deterministic
def test_whole_steps_are_kept_and_as_few_as_are_enough(steps, keep):
    outcomes = [PredictionOutcome(step, 0.1, 0.5, 0.1, 0.1, None) for step in sorted(steps)]
    kept = trim(outcomes, keep)
    assert kept == outcomes[len(outcomes) - len(kept) :]
    assert len(kept) >= min(keep, len(outcomes))
    if kept and len(kept) < len(outcomes):
        assert outcomes[-len(kept) - 1].step < kept[0].step
        assert len([each for each in kept if each.step > kept[0].step]) < keep


def test_predictions_that_are_all_alike_are_told_of_once():
    assert [bool(spread_notice(flat)) for flat in range(FLAT_STEPS + 3)] == [
        flat == FLAT_STEPS for flat in range(FLAT_STEPS + 3)
    ]


def test_judge_prompts_that_mostly_do_not_fit_are_told_of_once_until_they_fit_again():
    fit, unfit = predictions(0.1)[0], predictions(None, failure=Failure.DOES_NOT_FIT)[0]
    kept = Skill()
    assert kept.notices([fit, unfit]) == [] == kept.notices([])
    [notice] = kept.notices([fit, unfit, unfit])
    assert notice.startswith("2 of 3") and "curriculum.judge.examples" in notice
    assert kept.notices([unfit]) == [] == kept.notices([fit, unfit])
    assert len(kept.notices([unfit])) == 1
    resumed = Skill()
    resumed.load_state_dict(kept.state_dict())
    assert resumed.notices([unfit]) == []
    assert Skill().notices(predictions(None, None, failure=Failure.NO_BOX)) == []


def test_state_is_json_and_comes_back_typed():
    one, other = Skill(), Skill()
    one.outcomes = [PredictionOutcome(0, 0.1, 0.5, 0.2, 0.2, None)]
    one.flat = 3
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert other == one
    assert other.outcomes[0].v == 0.2
