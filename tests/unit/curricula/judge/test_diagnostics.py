import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metis.curricula.judge.diagnostics import (
    Reliability,
    auroc_informative,
    calibration_error,
    lift,
    pearson,
    ranks,
    reliability,
    skill,
    spearman,
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


def test_calibration_error_by_hand():
    """Two bins: 0.1 and 0.0 against a mean of 0.1, then 0.2 twice against 0.05."""
    assert calibration_error([0.2, 0.0, 0.2, 0.1], [0.1, 0.2, 0.0, 0.0], bins=2) == pytest.approx(
        (2 * 0.05 + 2 * 0.15) / 4
    )
    assert calibration_error([], []) is None


@given(variances)
@deterministic
def test_a_judge_that_is_right_is_calibrated_and_a_constant_is_off_by_the_difference(v):
    assert calibration_error(v, v) == pytest.approx(0.0, abs=1e-12)
    mean = sum(v) / len(v)
    assert calibration_error([0.5] * len(v), v, bins=1) == pytest.approx(0.5 - mean)
