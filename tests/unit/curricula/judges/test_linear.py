"""Linear models of states: ridge and logistic regression by hand, and their laws on any data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.curricula.judges.linear import (
    COMPONENTS,
    _principal_axes,
    binomial_loss,
    logistic,
    ridge,
    sigmoid,
)


def test_ridge_by_hand():
    """Two labels on one feature: z = -1, 1, so that w = 2 * 0.1 / (2 + alpha)."""
    features, labels = np.array([[3.0], [5.0]]), np.array([0.0, 0.2])
    for alpha, line in zip((0.0, 2.0), ridge(features, labels, [0.0, 2.0]), strict=True):
        assert line.weights == pytest.approx([0.2 / (2 + alpha)])
        assert line.predict(np.array([[4.0], [6.0]])) == pytest.approx(
            [0.1, 0.1 + 0.4 / (2 + alpha)]
        )


def test_ridge_solves_its_normal_equations_and_ignores_units():
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(40, 6)), draw.random(40)
    (line,) = ridge(features, labels, [3.0])
    z = (features - features.mean(0)) / features.std(0) / np.sqrt(6)
    wanted = np.linalg.solve(z.T @ z + 3.0 * np.eye(6), z.T @ (labels - labels.mean()))
    assert line.weights == pytest.approx(wanted)
    (other,) = ridge(features * 1000 + 5, labels, [3.0])
    assert other.predict(features * 1000 + 5) == pytest.approx(line.predict(features))


@pytest.mark.parametrize(("labels", "width"), [(4, 9), (9, 9), (30, 9)])
def test_of_labels_and_features_the_fewer_make_the_system(labels, width, monkeypatch):
    draw, sizes, solve = np.random.default_rng(0), [], np.linalg.solve
    features, known = draw.normal(size=(labels, width)), draw.random(labels)
    monkeypatch.setattr(np.linalg, "solve", lambda a, b: sizes.append(len(a)) or solve(a, b))
    lines = ridge(features, known, [10.0, 0.1])
    assert sizes == [min(labels, width)] * 2
    inputs = (features - features.mean(axis=0)) / features.std(axis=0) / width**0.5
    for line, penalty in zip(lines, (10.0, 0.1), strict=True):
        gradient = inputs.T @ (known - line.predict(features)) - penalty * line.weights
        assert np.abs(gradient).max() < 1e-12


def test_features_that_never_change_say_nothing():
    (line,) = ridge(np.array([[1.0, 7.0], [2.0, 7.0]]), np.array([0.0, 0.25]), [1.0])
    assert np.isfinite(line.weights).all()
    assert line.predict(np.array([[1.5, 1e6]])) == pytest.approx([0.125])


def outcomes(seed, count, width, slope=2.0):
    """States, of which the first number is the difficulty, and passes of eight."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(count, width))
    passes = draw.binomial(8, sigmoid(slope * features[:, 0] - 1.0))
    return features, passes.astype(float), np.full(count, 8.0)


def test_one_feature_by_hand():
    """z = -1, 1 and penalty 0: the log-odds of 2 of 8 and of 6 of 8."""
    features, trials = np.array([[3.0], [5.0]]), np.full(2, 8.0)
    (line,) = logistic(features, np.array([2.0, 6.0]), trials, [1e-12])
    assert line.predict(features) == pytest.approx([-np.log(3), np.log(3)], rel=1e-4)
    (flat,) = logistic(features, np.array([2.0, 6.0]), trials, [1e9])
    assert sigmoid(flat.predict(features)) == pytest.approx([0.5, 0.5], abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6),
    st.integers(2, 40),
    st.integers(1, 60),
    st.floats(0.0, 40.0),
    st.floats(0.01, 100.0),
)
def test_any_labels_are_fitted_to_where_the_penalised_loss_is_flat(
    seed, count, width, slope, penalty
):
    features, passes, trials = outcomes(seed, count, width, slope)
    (fitted,) = logistic(features, passes, trials, [penalty])
    line, inputs = fitted.line, fitted.line.inputs(features)
    assert np.isfinite(line.weights).all() and np.isfinite(line.offset)
    assert np.isfinite(fitted.spread(features)).all()
    residual = trials * sigmoid(line.predict(features)) - passes
    assert np.abs(inputs.T @ residual + penalty * line.weights).max() < 1e-3


@pytest.mark.parametrize("passes", [0, 8])
def test_labels_that_all_fail_or_all_pass_have_a_finite_fit(passes):
    features = np.random.default_rng(0).normal(size=(12, 3))
    (line,) = logistic(features, np.full(12, float(passes)), np.full(12, 8.0), [1.0])
    share = sigmoid(line.predict(features))
    assert np.abs(share - passes / 8).max() < 0.05 and 0 < share.min() <= share.max() < 1


def test_more_components_than_there_are_kept_change_nothing_much():
    features, passes, trials = outcomes(0, 400, COMPONENTS + 100)
    (line,) = logistic(features, passes, trials, [3.0])
    assert np.corrcoef(line.predict(features), features[:, 0])[0, 1] > 0.5


def test_the_spread_is_the_inverse_curvature_and_the_prior_where_nothing_was_seen():
    """One feature, z = -1, 1, both at p = 1/2: the curvatures are 8/4 a label, 4 + penalty."""
    features, trials = np.array([[3.0], [5.0]]), np.full(2, 8.0)
    (fitted,) = logistic(features, np.array([4.0, 4.0]), trials, [2.0])
    assert fitted.spread(np.array([[4.0], [5.0], [7.0]])) ** 2 == pytest.approx(
        [1 / 5, 1 / 5 + 1 / 6, 1 / 5 + 9 / 6]
    )
    plane = np.array([[3.0, 1.0], [5.0, 1.5]])  # labels are on a line: across it is the prior
    (fitted,) = logistic(plane, np.array([4.0, 4.0]), trials, [2.0])
    across = np.array([[4.0 + 2**0.5, 1.25 - 2**0.5 / 4]])
    assert fitted.spread(across) ** 2 == pytest.approx([1 / 5 + 2 / 2])


def test_the_loss_is_the_binomial_negative_log_likelihood():
    loss = binomial_loss(np.array([0.0, np.log(3.0)]), np.array([1.0, 2.0]), np.array([2.0, 2.0]))
    assert loss == pytest.approx(-2 * np.log(0.5) - 2 * np.log(0.75))


def test_axes_by_subspace_iteration_are_the_principal_ones():
    draw = np.random.default_rng(0)
    scales = 1 / np.arange(1, 1101) ** 0.7
    inputs = draw.normal(size=(1200, 1100)) * scales
    axes = _principal_axes(inputs)
    _, _, exact = np.linalg.svd(inputs, full_matrices=False)
    kept = np.linalg.svd(exact[:200] @ axes, compute_uv=False)
    assert axes.shape == (1100, COMPONENTS) and kept.min() > 0.97
