"""Logistic regression of passes: by hand, its laws on any data, and what a readout makes of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metis.curricula.readout import Readout
from metis.curricula.readout.linear import (
    COMPONENTS,
    _principal_axes,
    binomial_loss,
    logistic,
    sigmoid,
)
from metis.curricula.readout.models import FittedRate, Logistic, Ridge, regression

from metis import Group, Prompt
from metis.core import Trajectory

NOTHING = Trajectory(np.zeros(1, int), np.ones(1, bool), np.zeros(1, np.float32), 0)


def group(passes, trials=8, name="p"):
    rewards = (1.0,) * passes + (0.0,) * (trials - passes)
    return Group(Prompt(name, ""), rewards, (NOTHING,) * trials)


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


def readout(features, passes, count=300):
    made = Readout()
    groups = [group(int(k), name=f"p{i}") for i, k in enumerate(passes)]
    made.learn(list(features[:count].astype(np.float32)), groups, 0)
    return made


def test_what_is_nearly_solved_is_worth_less_than_the_frontier():
    """Ridge regression of the variance rises from dead to solved; the logistic one falls again."""
    features, passes, _ = outcomes(3, 300, 4, slope=3.0)
    made = readout(features, passes)
    frontier, solved = np.zeros(4, np.float32), np.zeros(4, np.float32)
    frontier[0], solved[0] = 1 / 3, 2.5
    (at, above), metrics = made.predict([frontier, solved], Logistic())
    assert at > 2 * above
    assert metrics["select/labels"] == 300 and metrics["select/held_out_pearson"] > 0.5
    (at, above), _ = made.predict([frontier, solved], Ridge())
    assert above > at
    (at, harder), _ = made.predict([frontier, np.array([-0.3, 0, 0, 0])], Logistic(harder=3.0))
    assert harder > at


def test_where_all_labels_fail_the_least_like_them_is_worth_most():
    features = np.random.default_rng(0).normal(size=(60, 5))
    alike, unlike = np.zeros(5, np.float32), np.full(5, 6.0, np.float32)
    (near, far), _ = readout(features, [0] * 60, 60).predict([alike, unlike], Logistic())
    assert far > near > 0


@pytest.mark.parametrize("spread", [0.1, 4.0, 12.0])
@pytest.mark.parametrize("mean", [0.0, -5.0])
def test_the_expectation_is_right_for_any_spread(mean, spread):
    class Known:
        def predict(self, features):
            return np.array([mean])

        def spread(self, features):
            return np.array([spread])

    points = mean + spread * np.linspace(-9, 9, 200_001)
    density = np.exp(-np.square(np.linspace(-9, 9, 200_001)) / 2)
    exact = np.sum(sigmoid(points) * sigmoid(-points) * density) / density.sum()
    assert FittedRate(Known(), 0.0).worth(np.zeros((1, 1))) == pytest.approx([exact], rel=1e-3)


def test_no_prediction_is_above_the_highest_variance():
    for seed in range(20):
        features, passes, _ = outcomes(seed, 4, 256, 9.0)
        predictions, _ = readout(features, passes, 4).predict(list(features), Logistic())
        assert max(predictions) <= 0.25


def test_axes_by_subspace_iteration_are_the_principal_ones():
    draw = np.random.default_rng(0)
    scales = 1 / np.arange(1, 1101) ** 0.7
    inputs = draw.normal(size=(1200, 1100)) * scales
    axes = _principal_axes(inputs)
    _, _, exact = np.linalg.svd(inputs, full_matrices=False)
    kept = np.linalg.svd(exact[:200] @ axes, compute_uv=False)
    assert axes.shape == (1100, COMPONENTS) and kept.min() > 0.97


def test_labels_of_an_older_shape_are_left_out():
    made = Readout()
    shapes = (np.zeros(4), np.zeros((4, 3)), np.zeros((4, 4)))
    made.load_state_dict({"labels": [(0, np.zeros((4, 9)), rows) for rows in shapes]})
    assert [rows.shape for _, _, rows in made.labels] == [(4, 4)]


def test_a_prompt_that_comes_twice_is_in_the_same_fold():
    made = Readout()
    for step in range(2):
        states = list(np.random.default_rng(step).normal(size=(9, 3)).astype(np.float32))
        made.learn(states, [group(2, name=f"p{i}") for i in range(9)], step)
    (_, _, first), (_, _, again) = made.labels
    assert first[:, 3].tolist() == again[:, 3].tolist() and len(set(first[:, 3])) > 1


def test_predictions_are_calibrated_where_the_states_tell_nothing():
    """Half of the prompts are solved, half dead: no variance, though the mean pass rate is 1/2."""
    draw = np.random.default_rng(0)
    features, passes = draw.normal(size=(300, 3)), draw.choice([0, 8], size=300)
    predictions, _ = readout(features, passes).predict(list(features), Logistic())
    assert 0 < max(predictions) < 0.01


def test_rewards_that_are_no_passes_have_ridge_regression():
    assert isinstance(regression("logistic", "continuous"), Ridge)
    assert regression("logistic", "binary", 1.0) == Logistic(harder=1.0)
    assert regression("ridge", "binary", 1.0) == Ridge(harder=1.0)
