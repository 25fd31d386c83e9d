"""Regressions of the variance: their penalty by cross-validation, and the expected p (1 - p)."""

import numpy as np
import pytest

from metis.curricula.judges.linear import sigmoid
from metis.curricula.judges.regressions import (
    FittedRate,
    Logistic,
    Outcomes,
    Ridge,
    cross_validate,
    regression,
)


def of(variances):
    count = len(variances)
    return Outcomes(variances, np.full(count, 0.5), np.full(count, 8.0), np.arange(count) % 5)


def test_the_penalty_is_small_for_signal_and_large_for_noise():
    draw = np.random.default_rng(1)
    features, model = draw.normal(size=(200, 5)), Ridge()
    signal = cross_validate(model, features, of(0.1 + 0.05 * features[:, 0]))
    assert signal.penalty == min(model.penalties) and signal.pearson > 0.99
    assert cross_validate(model, features, of(draw.random(200))).penalty >= 10
    alone = of(features[:, 0])._replace(folds=np.zeros(200))
    *rest, held_out = cross_validate(model, features, alone)
    assert rest == [max(model.penalties), None, 1.0] and np.isnan(held_out).all()
    assert cross_validate(model, features[:2], of(np.full(2, 0.1)))[:2] == (
        max(model.penalties),
        None,
    )


@pytest.mark.parametrize("fold", range(5))
def test_one_fold_of_noise_does_not_decide_the_penalty(fold):
    """A single held-out fifth that tells nothing kept the largest penalty for 20 steps of a run."""
    draw = np.random.default_rng(2)
    features, model = draw.normal(size=(200, 5)), Ridge()
    labels = 0.1 + 0.05 * features[:, 0]
    labels[fold::5] = draw.permutation(labels[fold::5])
    held = cross_validate(model, features, of(labels))
    assert held.penalty < max(model.penalties) and held.pearson > 0.7


def test_labels_of_noise_have_no_correlation_with_predictions():
    """Without centring it is -0.2 with 32 labels: a fold is predicted by the mean of the others."""
    draw = np.random.default_rng(4)
    noise = (
        cross_validate(Ridge(), draw.normal(size=(32, 64)), of(draw.random(32))) for _ in range(40)
    )
    correlations = [held.pearson for held in noise if held.pearson is not None]
    assert abs(np.mean(correlations)) < 0.08


@pytest.mark.parametrize(("labels", "fits"), [(2, 2), (4, 4), (20, 5), (1024, 3), (2560, 1)])
def test_the_more_labels_the_fewer_fits(labels, fits, monkeypatch):
    draw, made = np.random.default_rng(3), []
    fit = Ridge.fit
    monkeypatch.setattr(Ridge, "fit", lambda *given: made.append(1) or fit(*given))
    cross_validate(Ridge(), draw.normal(size=(labels, 3)), of(draw.random(labels)))
    assert len(made) == fits


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
    assert FittedRate(Known()).variance(np.zeros((1, 1))) == pytest.approx([exact], rel=1e-3)


def test_rewards_that_are_no_passes_have_ridge_regression():
    assert regression("logistic", "binary") == Logistic()
    assert regression("logistic", "continuous") == regression("ridge", "binary") == Ridge()
