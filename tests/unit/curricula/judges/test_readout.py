"""The judge that is a readout: its labels, what it makes of them, and what it chooses."""

import math

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.core import Embed, Engine, state
from metis.curricula.judges import Readout
from metis.curricula.judges.linear import sigmoid
from metis.curricula.judges.regressions import Logistic, Ridge
from metis.curricula.metis import Metis
from metis.engines.simulated import SimulatedEngine, Simulation
from metis.signal import judge_reward
from scripted import passes

PROMPTS = [Prompt(f"p{i}", f"p{i}") for i in range(16)]


def number(prompt):
    return int(prompt.id[1:])


class Scripted(Engine):
    """Prompt i has the state (i, 7, -i); from i = 8 on, half of its rollouts pass, before none."""

    def __init__(self, failing=()):
        self.failing, self.rolled, self.depths = set(failing), [], set()

    def embed(self, prompts, depths):
        self.depths.add(tuple(depths))
        return [np.array([number(p), 7, -number(p)], dtype=np.float32) for p in prompts]

    def rollout(self, prompts, n):
        self.rolled.append([prompt.id for prompt in prompts])
        return [self.group(prompt, n) for prompt in prompts]

    def group(self, prompt, n):
        if prompt.id in self.failing:
            return Group(prompt, (), (), n)
        return passes(prompt, n // 2 if number(prompt) >= 8 else 0, n)


def make(batch=4, multiplier=4, explore=0.0, **judge):
    judge = Readout(**{"regression": "ridge", **judge})
    return Metis(batch=batch, group=4, multiplier=multiplier, explore=explore, judge=judge)


def step(curriculum, engine, at=0, pool=None):
    return drive(curriculum.step(pool or Pool(PROMPTS), Progress(at)), engine)


def test_the_first_step_is_uniform_and_the_second_takes_what_varies():
    engine, pool, curriculum = Scripted(), Pool(PROMPTS), make(batch=8, multiplier=2)
    first = step(curriculum, engine, 0, pool)
    assert all(decision.score is None for decision in first.decisions)
    assert first.metrics["select/labels"] == 0.0
    assert first.metrics["select/tied_at_cut"] == 16.0
    second = step(curriculum, engine, 1, pool)
    assert second.metrics["select/labels"] == 8.0
    assert set(engine.rolled[1]) == {f"p{i}" for i in range(8, 16)}
    scores = {number(d.prompt): d.score for d in second.decisions}
    assert sorted(scores, key=scores.get) == list(range(16))
    v_hats = [min(max(0.0, scores[number(group.prompt)]), 0.25) for group in second.groups]
    rewards = [judge_reward(v, g.variance) for v, g in zip(v_hats, second.groups, strict=True)]
    assert second.metrics["judge/reward"] == pytest.approx(np.mean(rewards))


def test_nothing_is_asked_of_the_policy_and_nothing_is_trained():
    curriculum, engine = make(layer=0.5), Scripted()
    assert curriculum.needs.requests == {Embed} and not curriculum.needs.judges
    assert curriculum.judge_trial.steps == 0
    for at in range(3):
        batch = step(curriculum, engine, at)
        assert (len(batch.judgments), len(batch.exemplars), batch.gradient_share) == (0, 0, 0.0)
    assert engine.depths == {(0.5,)}


def test_labels_of_the_window_only_and_none_of_failures():
    engine, pool = Scripted(failing=["p0", "p9"]), Pool(PROMPTS)
    curriculum = make(window=2, batch=16, multiplier=1)
    counts = [step(curriculum, engine, i, pool).metrics["select/labels"] for i in range(5)]
    assert counts == [0.0, 14.0, 28.0, 28.0, 28.0]
    assert [at for at, _, _ in curriculum.judge.labels] == [2, 3, 4]


def test_nothing_but_failures_stays_uniform():
    engine, curriculum = Scripted(failing=[p.id for p in PROMPTS]), make()
    for at in range(3):
        batch = step(curriculum, engine, at)
        assert all(decision.score is None for decision in batch.decisions)
    assert curriculum.judge.labels == []


def test_a_label_keeps_the_state_that_was_read_when_its_prompt_was_chosen():
    curriculum = make(batch=8, multiplier=2)
    batch = step(curriculum, Scripted())
    [(at, states, outcomes)] = curriculum.judge.labels
    assert at == 0
    assert states[:, 0].tolist() == [number(group.prompt) for group in batch.groups]
    assert outcomes[:, 0].tolist() == [group.variance for group in batch.groups]
    assert outcomes[:, 1].tolist() == [group.mean for group in batch.groups]
    assert set(outcomes[:, 2]) == {4.0}


def test_saved_with_labels_it_goes_on_the_same(tmp_path):
    pool, curriculum = Pool(PROMPTS), make(explore=0.25)
    for at in range(3):
        step(curriculum, Scripted(), at, pool)
    state.save_state(tmp_path / "state", {"c": curriculum.state_dict(), "p": pool.state_dict()})
    saved = state.load_state(tmp_path / "state")
    resumed, other = make(explore=0.25), Pool(PROMPTS)
    resumed.load_state_dict(saved["c"])
    other.load_state_dict(saved["p"])
    for at in range(3, 6):
        one, two = step(curriculum, Scripted(), at, pool), step(resumed, Scripted(), at, other)
        assert one.decisions == two.decisions


# What is read of states


def readout(features, counts):
    """Trained on a step of prompts with these states and passes of eight."""
    made = Readout()
    groups = [passes(Prompt(f"p{i}", ""), int(k)) for i, k in enumerate(counts)]
    made.label(list(features.astype(np.float32)), groups, 0)
    return made


def any_states(seed, count, width, slope):
    """States, of which the first number is the difficulty, and passes of eight."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(count, width))
    return features, draw.binomial(8, sigmoid(slope * features[:, 0] - 1.0))


def test_what_is_nearly_solved_is_worth_less_than_the_frontier():
    """Ridge regression of the variance rises from dead to solved; the logistic one falls again."""
    made = readout(*any_states(3, 300, 4, slope=3.0))
    frontier, solved = np.zeros(4, np.float32), np.zeros(4, np.float32)
    frontier[0], solved[0] = 1 / 3, 2.5
    (at, above), metrics = made.read([frontier, solved], Logistic())
    assert at.variance > 2 * above.variance and at.pass_rate < above.pass_rate
    assert metrics["select/labels"] == 300 and metrics["select/held_out_pearson"] > 0.5
    assert metrics["select/penalty"] in Logistic.penalties
    (at, above), _ = made.read([frontier, solved], Ridge())
    assert above.variance > at.variance and at.pass_rate is None


def test_where_all_labels_fail_the_least_like_them_is_worth_most():
    features = np.random.default_rng(0).normal(size=(60, 5))
    alike, unlike = np.zeros(5, np.float32), np.full(5, 6.0, np.float32)
    (near, far), _ = readout(features, [0] * 60).read([alike, unlike], Logistic())
    assert far.variance > near.variance > 0


def test_no_prediction_is_above_the_highest_variance():
    for seed in range(20):
        features, counts = any_states(seed, 4, 256, 9.0)
        predictions, _ = readout(features, counts).read(list(features), Logistic())
        assert max(each.variance for each in predictions) <= 0.25


def test_predictions_are_calibrated_where_the_states_tell_nothing():
    """Half of the prompts are solved, half dead: no variance, though the mean pass rate is 1/2."""
    draw = np.random.default_rng(0)
    features, counts = draw.normal(size=(300, 3)), draw.choice([0, 8], size=300)
    predictions, _ = readout(features, counts).read(list(features), Logistic())
    assert 0 < max(each.variance for each in predictions) < 0.01


def test_a_prompt_that_comes_twice_is_in_the_same_fold():
    made = Readout()
    for at in range(2):
        states = list(np.random.default_rng(at).normal(size=(9, 3)).astype(np.float32))
        made.label(states, [passes(Prompt(f"p{i}", ""), 2) for i in range(9)], at)
    (_, _, first), (_, _, again) = made.labels
    assert first[:, 3].tolist() == again[:, 3].tolist() and len(set(first[:, 3])) > 1


@pytest.mark.parametrize("regression", ["ridge", "logistic"])
def test_states_that_are_no_numbers_are_passed_over(regression):
    class Diverged(SimulatedEngine):
        def embed(self, prompts, depths):
            states = super().embed(prompts, depths)
            return [
                np.full_like(state, np.nan) if i % 3 == 0 else state
                for i, state in enumerate(states)
            ]

    engine = Diverged(Simulation())
    pool, curriculum = Pool(engine.pool), make(batch=8, multiplier=8, regression=regression)
    for at in range(4):
        batch = step(curriculum, engine, at, pool)
    scores = [decision.score for decision in batch.decisions]
    assert scores.count(None) == math.ceil(len(scores) / 3)


# In the simulation


@pytest.mark.parametrize("regression", ["ridge", "logistic"])
@pytest.mark.parametrize("rewards", ["binary", "continuous"])
def test_it_finds_variance(rewards, regression):
    engine = SimulatedEngine(Simulation(prompts=600, heldout=1, rewards=rewards))
    pool = Pool(engine.pool, rewards=rewards)
    curriculum = Metis(batch=16, group=8, judge=Readout(regression=regression))
    variances = []
    for at in range(20):
        batch = step(curriculum, engine, at, pool)
        variances.append(np.mean([group.variance for group in batch.groups]))
    assert np.mean(variances[5:]) > 1.5 * variances[0]
    assert batch.metrics["judge/v_hat_distinct"] > 16 and batch.metrics["judge/outcomes"] > 0


def test_continuous_rewards_are_compared_as_variances():
    engine = SimulatedEngine(Simulation(rewards="continuous"))
    pool = Pool(engine.pool, rewards="continuous")
    curriculum = Metis(batch=16, group=8, explore=0.5, judge=Readout())
    for at in range(20):
        batch = step(curriculum, engine, at, pool)
    assert batch.metrics["judge/skill"] > 0


@pytest.mark.parametrize(
    ("knobs", "key"),
    [({"window": 0}, "window = 0"), ({"layer": 0.0}, "layer = 0.0"), ({"layer": 1.1}, "layer")],
)
def test_impossible_knobs_are_refused_by_name(knobs, key):
    with pytest.raises(MetisError, match=rf"^curriculum\.judge\.{key}"):
        Readout(**knobs)
