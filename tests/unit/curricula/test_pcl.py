"""PCL by hand: the batch nearest to one half, and what the value model is taught."""

import numpy as np
import pytest

from metis import Group, MetisError, Pool, Progress, Prompt, drive
from metis.config import resolve
from metis.core import Engine, Trajectory
from metis.core.predictors import ValueModel
from metis.curricula.pcl import Pcl
from metis.engines.simulated import SimulatedEngine, Simulation

PROMPTS = [Prompt(name, name) for name in "abcdefgh"]
VALUES = dict(zip("abcdefgh", [0.0, 0.1, 0.45, 0.58, 0.7, 0.93, 1.2, -0.3], strict=True))


def rolled(prompt, rewards, failed=0):
    mask = np.ones(3, dtype=bool)
    one = Trajectory(np.arange(3), mask, np.zeros(3, np.float32), 0)
    return Group(prompt, tuple(rewards), (one,) * len(rewards), failed)


class Scripted(Engine):
    """Values from a table; every rollout of a prompt in `rewards` has those."""

    def __init__(self, rewards=None):
        self.rewards, self.rolled, self.fits, self.models = rewards or {}, [], [], []

    def predict(self, prompts, model, evidence):
        assert not evidence
        self.models.append(model)
        return [VALUES[prompt.id] for prompt in prompts]

    def fit(self, prompts, targets, model, evidence):
        self.models.append(model)
        self.fits.append(dict(zip([prompt.id for prompt in prompts], targets, strict=True)))
        return 0.125

    def rollout(self, prompts, n):
        self.rolled.append({prompt.id for prompt in prompts})
        return [
            rolled(prompt, given, n - len(given))
            for prompt in prompts
            for given in [self.rewards.get(prompt.id, (1.0, 0.0, 0.0, 0.0))]
        ]


def step(engine, rewards="binary", **knobs):
    curriculum = Pcl(**{"batch": 2, "group": 4, "multiplier": 4, **knobs})
    return drive(curriculum.step(Pool(PROMPTS, rewards=rewards), Progress(0)), engine)


def test_the_two_nearest_to_one_half_are_trained_on_and_taught():
    engine = Scripted({"c": (1.0, 1.0, 0.0, 1.0)})
    batch = step(engine)
    assert {group.prompt.id for group in batch.groups} == {"c", "d"}
    assert engine.fits == [{"c": 0.75, "d": 0.25}]
    assert batch.metrics["select/value_loss"] == 0.125
    assert batch.metrics["select/candidates"] == 8.0
    assert {d.prompt.id: d.score for d in batch.decisions} == VALUES
    assert {d.prompt.id for d in batch.decisions if d.chosen} == {"c", "d"}


def test_another_target_moves_the_choice():
    engine = Scripted()
    step(engine, target=0.9)
    assert engine.rolled == [{"e", "f"}]


def test_continuous_rewards_regress_the_variance_and_take_the_highest():
    engine = Scripted({"f": (0.25, 0.75, 0.25, 0.75)})
    step(engine, rewards="continuous")
    assert engine.rolled == [{"f", "g"}]
    assert engine.fits == [{"f": 0.0625, "g": 0.1875}]


@pytest.mark.parametrize(("rewards", "taught"), [("binary", {"c": 1.0}), ("continuous", {})])
def test_rollouts_that_failed_teach_nothing(rewards, taught):
    engine = Scripted(dict.fromkeys("cdfg", ()) | {"c": (1.0,), "f": (1.0,)})
    batch = step(engine, rewards=rewards)
    assert engine.fits == ([taught] if taught else [])
    assert ("select/value_loss" in batch.metrics) == bool(taught)


def test_knobs_reach_the_value_model():
    engine = Scripted()
    step(engine, backbone="policy", hidden=8, loss="bce", learning_rate=1e-3, minibatch=16)
    assert set(engine.models) == {ValueModel("policy", 8, "bce", 1e-3, 16)}
    with pytest.raises(MetisError, match="hidden = 0: use at least 1"):
        Pcl(hidden=0)
    with pytest.raises(MetisError, match=r"curriculum.target = 2: use a number, 0 to 1"):
        Pcl(target=2)


def test_the_paper_s_preset_and_the_published_one():
    published = resolve({"engine": "simulated", "curriculum": "pcl"}).curriculum
    paper = resolve({"engine": "simulated", "curriculum": {"name": "pcl", "preset": "paper"}})
    assert (published.multiplier, paper.curriculum.multiplier) == (4, 8)
    model = ValueModel("separate", 512, "mse", 1e-4, 64, epochs=1)
    assert paper.curriculum._model() == published._model() == model


def test_exploration_slots_are_drawn_from_all_candidates():
    engine = Scripted()
    batch = step(engine, batch=2, explore=0.5)
    assert batch.metrics["select/explored"] == 1.0
    reasons = sorted(d.reason for d in batch.decisions if d.chosen)
    assert reasons == ["explore", "top"]
    assert sum(d.propensity for d in batch.decisions) == pytest.approx(2.0)


def test_an_untrained_value_model_draws_uniformly_and_a_trained_one_does_not():
    engine = SimulatedEngine(Simulation(prompts=400, heldout=1))
    pool, curriculum = Pool(engine.pool), Pcl(batch=16, group=8, multiplier=8)
    informative = []
    for number in range(30):
        batch = drive(curriculum.step(pool, Progress(number)), engine)
        engine.update(batch)
        informative.append(np.mean([group.informative for group in batch.groups]))
        if number == 0:
            assert batch.metrics["select/tied_at_cut"] == 128.0
    assert np.mean(informative[15:]) > np.mean(informative[:3]) + 0.2
