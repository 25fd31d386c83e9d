"""Learned models beside the policy: they learn, read the evidence, and come back exactly."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from metis import MetisError
from metis.core.predictors import AttentionModel, ValueModel
from metis.engines.learners.learner import AttentionHead
from metis.engines.local.engine import LocalEngine
from metis.engines.local.model.hidden_states import parts
from metis.run.folder import incomplete
from metis.tasks.arithmetic import Arithmetic, build

SEPARATE = ValueModel(hidden=16, learning_rate=1e-2, minibatch=4)
POLICY = ValueModel("policy", hidden=16, learning_rate=1e-2, minibatch=4)
LOGISTIC = dataclasses.replace(POLICY, loss="bce")
ATTENTION = AttentionModel(width=16, layers=2, learning_rate=1e-2, minibatch=4, epochs=3)
MODELS = {"separate": SEPARATE, "policy": POLICY, "bce": LOGISTIC, "attention": ATTENTION}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@pytest.fixture
def engine(settings):
    return make(settings)


def make(settings, seed=0):
    return LocalEngine(settings, build(Arithmetic(prompts=24, heldout=1), seed=0), seed)


@pytest.fixture
def prompts(engine):
    """Some short, some long."""
    return [
        dataclasses.replace(p, text=p.text + " Please." * (i % 3))
        for i, p in enumerate(engine.task.training())
    ]


def learnable(prompts):
    return [0.9 if len(prompt.text) % 2 else 0.1 for prompt in prompts]


def evidence(prompts):
    return list(zip(prompts, learnable(prompts), strict=True))


def everything(engine):
    """All numbers a learned model consists of."""
    return [
        weight.detach().clone()
        for learner in engine.learners.values()
        for weight in learner.weights().values()
    ]


@pytest.mark.parametrize("budget", [1, 100, 16384])
def test_states_of_padded_prompts_equal_those_of_one_prompt_at_a_time(settings, prompts, budget):
    engine = make(dataclasses.replace(settings, tokens=budget))
    found = engine.embed(prompts)
    policy, count = engine.policy, 0
    for prompt, vector in zip(prompts, found, strict=True):
        tokens = policy.encode_chat(engine.task.episode(prompt).chat)
        count += len(tokens)
        with torch.no_grad():
            states = policy.network.model(input_ids=torch.tensor([tokens])).last_hidden_state
        assert vector.dtype == np.float32
        assert np.allclose(vector, states[0, -1].numpy(), atol=1e-5)
    assert engine.processed == count if budget == 1 else 0 < engine.processed < count


@pytest.mark.parametrize("budget", [1, 16384])
def test_states_of_chats_at_several_depths_stand_one_after_the_other(settings, prompts, budget):
    engine = make(dataclasses.replace(settings, tokens=budget))
    policy = engine.policy
    chats = [[{"role": "user", "content": prompt.text}] for prompt in prompts[:5]]
    for chat, vector in zip(chats, engine.embed(chats, (0.5, 1.0)), strict=True):
        tokens = torch.tensor([policy.encode_chat(chat)])
        with torch.no_grad():
            found = policy.network.model(input_ids=tokens, output_hidden_states=True)
        layers = [state[0, -1].numpy() for state in found.hidden_states]
        wanted = np.concatenate([layers[(len(layers) - 1) // 2], layers[-1]])
        assert np.allclose(vector, wanted, atol=1e-5)


def test_a_prompt_longer_than_the_context_is_read_from_its_end(engine, prompts):
    policy = engine.policy
    policy.context = 10
    (vector,) = engine.embed(prompts[:1])
    tokens = policy.encode_chat(engine.task.episode(prompts[0]).chat)[-10:]
    with torch.no_grad():
        states = policy.network.model(input_ids=torch.tensor([tokens])).last_hidden_state
    assert np.allclose(vector, states[0, -1].numpy(), atol=1e-5)


def test_parts_keep_to_the_budget_and_leave_nobody_out():
    sequences = [[0] * n for n in (3, 9, 1, 4, 30, 2, 5)]
    made = parts(sequences, 12)
    assert sorted(i for part in made for i in part) == list(range(7))
    for part in made:
        assert len(part) == 1 or len(part) * max(len(sequences[i]) for i in part) <= 12
    assert parts([], 12) == []


@every_model
def test_fitting_lowers_the_loss_on_what_can_be_learned(engine, prompts, model):
    targets = learnable(prompts)
    losses = [engine.fit(prompts, targets, model, evidence(prompts)) for _ in range(25)]
    assert all(map(math.isfinite, losses))
    floor = 0.325 if model in (LOGISTIC, ATTENTION) else 0.0  # the entropy of 0.1 and 0.9
    assert losses[-1] - floor < 0.5 * (losses[0] - floor)
    found = engine.predict(prompts, model, evidence(prompts))
    assert np.corrcoef(found, targets)[0, 1] > 0.8


def test_an_untrained_value_model_prefers_no_prompt(engine, prompts):
    assert engine.predict(prompts, SEPARATE) == [0.0] * len(prompts)
    assert engine.predict(prompts, LOGISTIC) == [0.5] * len(prompts)


def test_only_a_separate_value_model_has_layers_of_its_own_and_none_touches_the_policy(
    engine, prompts
):
    before = [weight.detach().clone() for weight in engine.policy.trainable]
    for model in MODELS.values():
        engine.fit(prompts, learnable(prompts), model, evidence(prompts))
    after = engine.policy.trainable
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert all(weight.grad is None for weight in after)
    bodies = {model: learner.body for model, learner in engine.learners.items()}
    assert [model for model, body in bodies.items() if body is not None] == [SEPARATE]
    theirs = bodies[SEPARATE].policy.backbone.parameters()
    ours = engine.policy.backbone.parameters()
    assert any(not torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))


def test_micro_batches_of_a_separate_value_model_change_nothing(settings, prompts):
    weights = []
    for budget in (64, 1 << 20):
        engine = make(dataclasses.replace(settings, tokens=budget))
        engine.fit(prompts, learnable(prompts), dataclasses.replace(SEPARATE, minibatch=24))
        weights.append(everything(engine))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*weights, strict=True))


@pytest.mark.parametrize("knobs", [{"checkpointing": True}, {"lora": 2}])
def test_a_separate_value_model_follows_the_engine_s_memory_savers(settings, prompts, knobs):
    if "lora" in knobs:
        pytest.importorskip("peft")
    engine = make(dataclasses.replace(settings, **knobs))
    losses = [engine.fit(prompts, learnable(prompts), SEPARATE) for _ in range(6)]
    assert losses[-1] < losses[0]
    assert not engine.learners[SEPARATE].body.policy.network.training


def test_evidence_changes_predictions_but_a_prompt_s_own_does_not(engine, prompts):
    one, two, three, *_ = prompts
    (low,) = engine.predict([one], ATTENTION, [(two, 0.1), (three, 0.2)])
    (high,) = engine.predict([one], ATTENTION, [(two, 0.9), (three, 0.8)])
    assert low < high
    with torch.no_grad():  # without the calibration, which sees the mean of all evidence
        engine.learners[ATTENTION].head.calibration[-1].weight.zero_()
    others = [(two, 0.1), (three, 0.9)]
    apart = [engine.predict([one], ATTENTION, [*others, (one, v)])[0] for v in (0.1, 0.9)]
    assert apart[0] == apart[1]
    alone = engine.predict([one, two], ATTENTION, [(one, 0.3)])
    assert all(map(math.isfinite, [*alone, *engine.predict([one], ATTENTION)]))


def test_the_attention_head_by_hand():
    torch.manual_seed(0)
    head = AttentionHead(4, AttentionModel(width=6, layers=1, dropout=0.0))
    states, evidence, values = torch.randn(2, 4), torch.randn(3, 4), torch.tensor([0.2, 0.9, 0.4])
    own = torch.tensor([[False, False, False], [True, False, False]])
    found = torch.sigmoid(head(states, evidence, values, own))
    a, b = head.calibration(torch.tensor([0.5, float(np.std([0.2, 0.9, 0.4], ddof=1))]))
    for i, visible in enumerate(([0, 1, 2], [1, 2])):
        scores = head.references(evidence[visible]) @ head.queries(states[i]) / 6**0.5
        base = torch.softmax(scores, 0) @ values[visible]
        temperature = torch.nn.functional.softplus(a)
        wanted = torch.sigmoid(torch.log(base / (1 - base)) / temperature + torch.tanh(b))
        assert found[i].item() == pytest.approx(wanted.item(), abs=1e-6)


def test_the_towers_and_the_calibration_are_the_published_ones():
    head = AttentionHead(4, AttentionModel(width=6, layers=3, dropout=0.1))
    inner = ["GELU", "Dropout"]
    tower = ["LayerNorm", "Linear", *inner, "Linear", *inner, "Linear", "LayerNorm"]
    for made in (head.queries, head.references):
        assert [type(layer).__name__ for layer in made] == tower
        assert (made[0].normalized_shape, made[-1].normalized_shape) == ((4,), (6,))
    assert [type(layer).__name__ for layer in head.calibration] == ["Linear", "ReLU", "Linear"]


@every_model
def test_weights_that_the_targets_do_not_ask_to_move_stay(engine, prompts, model):
    """No decay: only a gradient changes a weight, and at the optimum there is none."""
    engine.predict(prompts, model, evidence(prompts))
    learner = engine.learners[model]
    before = everything(engine)
    for weight in learner.weights().values():
        weight.grad = torch.zeros_like(weight)
    learner.optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, everything(engine), strict=True))


@pytest.mark.parametrize("clip", [0.0, 1e-9])
def test_only_the_description_clips_gradients(settings, prompts, clip):
    engine = make(dataclasses.replace(settings, gradient_clip=1e-12))
    model = dataclasses.replace(POLICY, clip=clip, learning_rate=1e-3)
    for _ in range(2):
        engine.fit(prompts[:4], learnable(prompts[:4]), model)
    norms = [weight.grad.norm() for weight in engine.learners[model].weights().values()]
    total = float(torch.stack(norms).norm())
    assert total <= 1e-9 * 1.001 if clip else total > 1e-3


@every_model
def test_saved_and_loaded_it_goes_on_exactly(settings, prompts, model, tmp_path):
    def train(engine, times):
        for _ in range(times):
            engine.fit(prompts, learnable(prompts), model, evidence(prompts))

    straight, first, second = make(settings), make(settings), make(settings, seed=1)
    train(straight, 4)
    train(first, 2)
    first.save(tmp_path)
    torch.rand(7)  # what happens elsewhere does not matter
    second.load(tmp_path)
    train(second, 2)
    pairs = zip(everything(straight), everything(second), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    question = (prompts, model, evidence(prompts))
    assert straight.predict(*question) == second.predict(*question)


def test_several_models_are_told_apart_in_a_checkpoint(settings, prompts, tmp_path):
    engine, other = make(settings), make(settings)
    for model in (POLICY, LOGISTIC):
        engine.fit(prompts, learnable(prompts), model)
    engine.save(tmp_path)
    other.load(tmp_path)
    assert list(other.learners) == [POLICY, LOGISTIC]
    for model in (POLICY, LOGISTIC):
        assert other.predict(prompts, model) == engine.predict(prompts, model)
    (tmp_path / "learner-1.pt").unlink()
    with pytest.raises(OSError, match="learner-1") as missing:
        make(settings).load(tmp_path)
    assert "incomplete" in str(incomplete(tmp_path, missing.value))
    (tmp_path / "learner-1.pt").write_bytes((tmp_path / "learner-0.pt").read_bytes()[:-100])
    with pytest.raises(OSError, match=r"learner-1.pt' cannot be read"):
        make(settings).load(tmp_path)


def test_a_learned_model_disturbs_neither_sampling_nor_anybody_s_randomness(settings, prompts):
    rewards = []
    for asks in (False, True):
        engine = make(settings)
        torch.manual_seed(3)
        if asks:
            for model in MODELS.values():
                engine.fit(prompts, learnable(prompts), model, evidence(prompts))
        groups = engine.rollout(prompts[:2], 2)
        rewards.append([t.tokens.tolist() for g in groups for t in g.trajectories])
        rewards.append(torch.rand(3).tolist())
    assert rewards[:2] == rewards[2:]


def test_a_seed_fixes_the_weights(settings, prompts):
    def predictions(seed):
        return make(settings, seed).predict(prompts, ATTENTION, evidence(prompts))

    assert predictions(0) == predictions(0) != predictions(1)


def test_losses_that_are_not_finite_are_skipped_and_then_stop_the_run(engine, prompts):
    few = prompts[:4]
    broken = [math.nan] * 4
    engine.fit(few, [0.5] * 4, POLICY)
    before = everything(engine)
    assert engine.fit(few, broken, POLICY) == 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, everything(engine), strict=True))
    engine.fit(few, [0.5] * 4, POLICY)
    with pytest.raises(MetisError, match=r"learning_rate = 0.01 of the ValueModel.*3 times"):
        for _ in range(3):
            engine.fit(few, broken, POLICY)


def test_predictions_that_are_not_finite_are_refused(engine, prompts):
    engine.predict(prompts, POLICY)
    with torch.no_grad():
        engine.learners[POLICY].head.layers[-1].bias.fill_(math.nan)
    with pytest.raises(MetisError, match="not finite; start a new run with a lower one"):
        engine.predict(prompts, POLICY)


def test_vllm_sleeps_while_a_model_is_trained(engine, prompts):
    slept = []
    engine.sampler = type("Foreign", (), {"sleep": lambda self: slept.append(True)})()
    engine.predict(prompts, POLICY)
    assert slept == []
    engine.fit(prompts, learnable(prompts), POLICY)
    assert slept == [True]
