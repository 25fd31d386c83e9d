"""States of prompts from workers that are made up, and the models that learn on them."""

import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from verl import DataProto

from integration.conftest import save_tiny
from metis import MetisError, Prompt
from metis.core.predictors import AttentionModel, ValueModel
from metis.engines.verl.engine import VerlEngine
from metis.engines.verl.workers import hidden_states as reading
from metis.engines.verl.workers.hidden_states import States, last_states

SIZE = 4
PROMPTS = [Prompt(f"data:{i}", "x" * length) for i, length in enumerate((3, 9, 1, 5, 2))]
HEADS = (ValueModel("policy", hidden=8, learning_rate=0.1), AttentionModel(width=8, layers=1))


class Workers:
    """Their state of a text is its length, its last token and the sum of both."""

    world_size = 2

    def __init__(self):
        self.shapes = []

    def execute_with_func_generator(self, function, data):
        assert function is last_states
        tokens, sizes = data.batch["tokens"], data.batch["sizes"]
        assert len(tokens) % self.world_size == 0
        self.shapes.append(tuple(tokens.shape))
        last = tokens[torch.arange(len(tokens)), sizes - 1]
        columns = [sizes, last, sizes + last, torch.ones_like(sizes)]
        return DataProto.from_dict({"states": torch.stack(columns, dim=1).float()})


def encode(prompts):
    return [[7] * (len(prompt.text) - 1) + [len(prompt.text)] for prompt in prompts]


def engine(budget=8, shared=False):
    idle = SimpleNamespace(processed=0)
    states = States(Workers(), SIZE, budget, shared)
    return VerlEngine(idle, idle, None, states, encode, seed=3)


def test_states_come_in_the_order_of_the_prompts_within_the_budget_of_the_workers():
    made = engine()
    found = np.stack(made.embed(PROMPTS))
    lengths = [len(prompt.text) for prompt in PROMPTS]
    assert found.tolist() == [[n, n, 2 * n, 1] for n in lengths]
    shapes = made.states.workers.shapes
    assert all(rows * width <= 2 * 8 or rows == 2 for rows, width in shapes)
    assert len(shapes) > 1 and made.processed >= sum(lengths)


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "get_device_id", lambda: "cpu")
    return AutoModelForCausalLM.from_pretrained(save_tiny(tmp_path / "model")).eval()


TOKENS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 0, 0]])
SIZES = torch.tensor([5, 3])


def read(module, **about):
    inside = SimpleNamespace(
        module=module, eval_mode=lambda: nullcontext(), _autocast_dtype=torch.float32
    )
    worker = SimpleNamespace(actor=SimpleNamespace(engine=inside))
    data = DataProto.from_dict({"tokens": TOKENS, "sizes": SIZES}, meta_info=about)
    return last_states(worker, data).batch["states"]


@pytest.mark.parametrize("adapted", [False, True])
def test_a_state_is_what_the_last_norm_makes_of_the_last_token(network, adapted):
    module = (
        get_peft_model(network, LoraConfig(target_modules="all-linear")) if adapted else network
    )
    found = read(module)
    with torch.no_grad():
        for row, size, state in zip(TOKENS, SIZES, found, strict=True):
            whole = network(input_ids=row[None, :size], output_hidden_states=True)
            assert torch.allclose(state, whole.hidden_states[-1][0, -1], atol=1e-5)
    assert not network.get_decoder()._forward_hooks


def test_no_layer_s_states_are_held_when_the_last_norm_is_done(network):
    made, held = [], []
    layers = network.get_decoder().layers
    for layer in layers:
        layer.register_forward_hook(lambda *found: made.append(weakref.ref(found[-1])))
    network.lm_head.register_forward_pre_hook(
        lambda *_: held.extend(state for state in made if state() is not None)
    )
    read(network)
    assert len(made) == len(layers) > 1
    assert not held


def test_states_of_several_depths_stand_one_after_the_other(network):
    found = read(network, depths=(0.5, 1.0))
    with torch.no_grad():
        for row, size, state in zip(TOKENS, SIZES, found, strict=True):
            layers = network(input_ids=row[None, :size], output_hidden_states=True).hidden_states
            middle = layers[round((len(layers) - 1) / 2)]
            assert torch.allclose(state, torch.cat([middle, layers[-1]], -1)[0, -1], atol=1e-5)


def test_sequences_that_ranks_share_are_refused():
    with pytest.raises(MetisError, match=r"ulysses_sequence_parallel_size: hidden states"):
        engine(shared=True).embed(PROMPTS)


@pytest.mark.parametrize("model", HEADS)
def test_a_model_on_the_states_learns_and_goes_on_from_a_checkpoint(model, tmp_path):
    first, again = engine(), engine()
    targets = [len(prompt.text) / 10 for prompt in PROMPTS]
    evidence = list(zip(PROMPTS, targets, strict=True))
    losses = [first.fit(PROMPTS, targets, model, evidence) for _ in range(8)]
    assert losses[-1] < losses[0]
    first.save(tmp_path)
    again.load(tmp_path, list(first.learners))
    for made in (first, again):
        made.fit(PROMPTS, targets, model, evidence)
    assert first.predict(PROMPTS, model, evidence) == again.predict(PROMPTS, model, evidence)


def test_a_separate_model_is_the_critic_or_none():
    with pytest.raises(MetisError, match=r"critic\.enable = None: this curriculum trains a value"):
        engine().predict(PROMPTS, ValueModel())
