"""States of prompts from workers that are made up, and the models that learn on them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from verl import DataProto

from metis import MetisError, Prompt
from metis.engines.verl.engine import VerlEngine
from metis.engines.verl.states import States, last_states
from metis.predictors import AttentionModel, ValueModel

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
    with pytest.raises(MetisError, match=r"critic\.enable = None: this curriculum learns a value"):
        engine().predict(PROMPTS, ValueModel())
