"""The probe by hand: ridge regression, its labels, and what it chooses."""

import numpy as np
import pytest
from metis.curricula.readout.linear import ridge
from metis.curricula.readout.models import Outcomes, Ridge, held_out

from metis import Group, Pool, Progress, Prompt, drive
from metis.core import Engine, Trajectory, state
from metis.curricula.probe import Probe
from metis.engines.simulated import SimulatedEngine, Simulation

PROMPTS = [Prompt(f"p{i}", f"p{i}") for i in range(16)]


def number(prompt):
    return int(prompt.id[1:])


class Scripted(Engine):
    """Prompt i has the state (i, 7, -i); from i = 8 on, half of its rollouts pass, before none."""

    def __init__(self, failing=()):
        self.failing, self.rolled = set(failing), []

    def embed(self, prompts, depths):
        return [np.array([number(p), 7, -number(p)], dtype=np.float32) for p in prompts]

    def rollout(self, prompts, n):
        self.rolled.append([prompt.id for prompt in prompts])
        return [self.group(prompt, n) for prompt in prompts]

    def group(self, prompt, n):
        if prompt.id in self.failing:
            return Group(prompt, (), (), n)
        rewards = (1.0, 0.0) * (n // 2) if number(prompt) >= 8 else (0.0,) * n
        one = Trajectory(np.arange(2), np.ones(2, bool), np.zeros(2, np.float32), 0)
        return Group(prompt, rewards, (one,) * n)


def of(variances):
    count = len(variances)
    return Outcomes(variances, np.full(count, 0.5), np.full(count, 8.0), np.arange(count) % 5)


def make(**knobs):
    return Probe(**{"batch": 4, "group": 4, "multiplier": 4, "explore": 0.0, **knobs})


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


def test_the_penalty_is_small_for_signal_and_large_for_noise():
    draw = np.random.default_rng(1)
    features, model = draw.normal(size=(200, 5)), Ridge()
    signal = held_out(model, features, of(0.1 + 0.05 * features[:, 0]))
    assert signal.penalty == min(model.penalties) and signal.pearson > 0.99
    assert held_out(model, features, of(draw.random(200))).penalty >= 10
    alone = of(features[:, 0])._replace(folds=np.zeros(200))
    assert held_out(model, features, alone) == (max(model.penalties), None, 1.0)
    assert held_out(model, features[:2], of(np.full(2, 0.1)))[:2] == (max(model.penalties), None)


@pytest.mark.parametrize("fold", range(5))
def test_one_fold_of_noise_does_not_decide_the_penalty(fold):
    """A single held-out fifth that tells nothing kept the largest penalty for 20 steps of a run."""
    draw = np.random.default_rng(2)
    features, model = draw.normal(size=(200, 5)), Ridge()
    labels = 0.1 + 0.05 * features[:, 0]
    labels[fold::5] = draw.permutation(labels[fold::5])
    held = held_out(model, features, of(labels))
    assert held.penalty < max(model.penalties) and held.pearson > 0.7


def test_labels_of_noise_have_no_correlation_with_predictions():
    """Without centring it is -0.2 with 32 labels: a fold is predicted by the mean of the others."""
    draw = np.random.default_rng(4)
    noise = (held_out(Ridge(), draw.normal(size=(32, 64)), of(draw.random(32))) for _ in range(40))
    correlations = [held.pearson for held in noise if held.pearson is not None]
    assert abs(np.mean(correlations)) < 0.08


@pytest.mark.parametrize(("labels", "fits"), [(2, 2), (4, 4), (20, 5), (1024, 3), (2560, 1)])
def test_the_more_labels_the_fewer_fits(labels, fits, monkeypatch):
    draw, made = np.random.default_rng(3), []
    fit = Ridge.fit
    monkeypatch.setattr(Ridge, "fit", lambda *given: made.append(1) or fit(*given))
    held_out(Ridge(), draw.normal(size=(labels, 3)), of(draw.random(labels)))
    assert len(made) == fits


def test_the_first_step_is_uniform_and_the_second_takes_what_varies():
    engine, pool, curriculum = Scripted(), Pool(PROMPTS), make(batch=8, multiplier=2)
    first = drive(curriculum.step(pool, Progress(0)), engine)
    assert all(decision.score is None for decision in first.decisions)
    assert first.metrics["select/labels"] == 0.0
    assert first.metrics["select/tied_at_cut"] == 16.0
    second = drive(curriculum.step(pool, Progress(1)), engine)
    assert second.metrics["select/labels"] == 8.0
    assert set(engine.rolled[1]) == {f"p{i}" for i in range(8, 16)}
    scores = {number(d.prompt): d.score for d in second.decisions}
    assert sorted(scores, key=scores.get) == list(range(16))


def test_labels_of_the_window_only_and_none_of_failures():
    engine, pool = Scripted(failing=["p0", "p9"]), Pool(PROMPTS)
    curriculum = make(window=2, batch=16, multiplier=1)
    counts = [
        drive(curriculum.step(pool, Progress(i)), engine).metrics["select/labels"] for i in range(5)
    ]
    assert counts == [0.0, 14.0, 28.0, 28.0, 28.0]
    assert [step for step, _, _ in curriculum.readout.labels] == [2, 3, 4]


def test_nothing_but_failures_stays_uniform():
    engine, curriculum = Scripted(failing=[p.id for p in PROMPTS]), make()
    for i in range(3):
        batch = drive(curriculum.step(Pool(PROMPTS), Progress(i)), engine)
        assert all(decision.score is None for decision in batch.decisions)
    assert curriculum.readout.labels == []


def test_exploration_is_drawn_first():
    batch = drive(make(explore=0.25).step(Pool(PROMPTS), Progress(0)), Scripted())
    assert batch.metrics["select/explored"] == 1.0


def test_saved_with_labels_it_goes_on_the_same(tmp_path):
    pool, curriculum = Pool(PROMPTS), make(explore=0.25)
    for i in range(3):
        drive(curriculum.step(pool, Progress(i)), Scripted())
    state.save(tmp_path / "state", {"c": curriculum.state_dict(), "p": pool.state_dict()})
    saved = state.load(tmp_path / "state")
    resumed, other = make(explore=0.25), Pool(PROMPTS)
    resumed.load_state_dict(saved["c"])
    other.load_state_dict(saved["p"])
    for i in range(3, 6):
        one = drive(curriculum.step(pool, Progress(i)), Scripted())
        two = drive(resumed.step(other, Progress(i)), Scripted())
        assert one.decisions == two.decisions


@pytest.mark.parametrize("regression", ["ridge", "logistic"])
@pytest.mark.parametrize("rewards", ["binary", "continuous"])
def test_it_finds_variance_in_the_simulation(rewards, regression):
    engine = SimulatedEngine(Simulation(prompts=600, heldout=1, rewards=rewards))
    pool = Pool(engine.pool, rewards=rewards)
    curriculum = Probe(batch=16, group=8, regression=regression)
    variances = []
    for i in range(20):
        batch = drive(curriculum.step(pool, Progress(i)), engine)
        variances.append(np.mean([group.variance for group in batch.groups]))
    assert np.mean(variances[5:]) > 1.5 * variances[0]
