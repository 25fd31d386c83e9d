"""Descriptions of learned models: checked, hashable, saved; and how the simulation answers them."""

import pytest

from metis import MetisError
from metis.core import state
from metis.core.predictors import AttentionModel, ValueModel
from metis.engines.simulated import SimulatedEngine, Simulation


@pytest.mark.parametrize(
    ("kind", "knobs"),
    [
        (ValueModel, {"hidden": 0}),
        (ValueModel, {"minibatch": 0}),
        (ValueModel, {"learning_rate": float("nan")}),
        (AttentionModel, {"layers": 0}),
        (AttentionModel, {"dropout": 1.0}),
        (AttentionModel, {"learning_rate": 0.0}),
    ],
)
def test_a_bad_description_is_refused_by_name(kind, knobs):
    ((name, value),) = knobs.items()
    with pytest.raises(MetisError, match=f"{name} = {value!r}: use "):
        kind(**knobs)


def test_descriptions_are_saved_as_values(tmp_path):
    models = [ValueModel(backbone="policy"), AttentionModel(width=8)]
    state.save_state(tmp_path / "state", {"models": models})
    assert state.load_state(tmp_path / "state") == {"models": models}
    assert len({*models, ValueModel(backbone="policy"), ValueModel()}) == 3


@pytest.fixture
def engine():
    return SimulatedEngine(Simulation(prompts=40, heldout=1, skills=1))


def test_a_simulated_value_model_learns_and_keeps_to_itself(engine):
    prompts, model = engine.pool, ValueModel()
    losses = [engine.fit(prompts, [0.75] * 40, model) for _ in range(20)]
    assert losses[-1] < 0.01 * losses[0]
    assert engine.predict(prompts, model) == pytest.approx([0.75] * 40, abs=0.1)
    assert engine.predict(prompts, ValueModel(hidden=8)) == [0.0] * 40


def test_a_simulated_attention_model_follows_the_evidence_but_not_a_prompt_s_own(engine):
    one, two, *_ = sorted(engine.pool, key=lambda p: engine.level[int(p.id.split(":")[1])])
    model = AttentionModel()
    assert engine.predict([one], model, [(one, 1.0)]) == [0.5]
    assert engine.predict([one], model, [(one, 1.0), (two, 0.25)]) == [0.25]
    engine.fit([one, two], [1.0, 0.0], model, [(one, 1.0), (two, 0.25)])
    assert engine.predict([one], model, [(two, 0.9)]) == pytest.approx([0.9])
