"""Log-probabilities in chunks against a plain pass over all logits."""

import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from metis import Batch, Group, Prompt
from metis.core import Continuation, Judgment, Trajectory
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.scale import VARIANCE
from metis.engines.local.engine import LocalEngine
from metis.engines.local.estimate import step as estimate
from metis.engines.local.model import forward
from metis.engines.local.model import head as module
from metis.engines.local.model.head import (
    LOGIT_CHUNK,
    Head,
    chosen_logprobs,
    chosen_logprobs_and_entropies,
)
from metis.engines.local.update.gradients import backward
from metis.engines.local.update.rows import local_minibatches
from metis.tasks.arithmetic import Arithmetic, build
from scripted import exemplar
from traced import compile_with

WORDS, WIDTH, ROWS = 37, 8, 11
POSITIONS = np.array([3, 0, 0, 10, 7, 3, 5, 0, 9])
"""Some positions have several tokens, some none; not in order."""


@pytest.fixture(params=[1, 3, 4, 100], ids="{} rows at a time".format)
def rows_at_a_time(request, monkeypatch):
    monkeypatch.setattr(module, "LOGIT_CHUNK", request.param * WORDS + 5)


def drawn(*shape: int, seed: int = 0, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(0, WORDS, len(POSITIONS))


def plain(head: Head, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits = head.scale * torch.nn.functional.linear(hidden, head.weight, head.bias)
    whole = torch.log_softmax(logits, 1)
    return whole[POSITIONS, tokens()], -(whole.exp() * whole).sum(1)


def weighed(logprobs: torch.Tensor) -> torch.Tensor:
    """A loss in which every value has a weight of its own."""
    return (logprobs * drawn(len(logprobs), seed=7).detach()).sum()


@pytest.mark.parametrize("scale", [1.0, 1 / 0.7, 2.5])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("entropy", [False, True])
def test_values_and_gradients_are_those_of_all_logits(rows_at_a_time, scale, biased, entropy):
    values_and_gradients_are_those_of_all_logits(scale, biased, entropy)


@pytest.mark.parametrize("entropy", [False, True])
def test_compiled_values_and_gradients_are_those_of_all_logits(monkeypatch, entropy):
    compile_with(monkeypatch, "aot_eager")
    monkeypatch.setattr(module, "LOGIT_CHUNK", 3 * WORDS)
    values_and_gradients_are_those_of_all_logits(2.5, True, entropy, compiled=True)


def values_and_gradients_are_those_of_all_logits(scale, biased, entropy, compiled=False):
    hidden, weight = drawn(ROWS, WIDTH, seed=1), drawn(WORDS, WIDTH, seed=2)
    inputs = [hidden, weight, *([drawn(WORDS, seed=3)] if biased else [])]
    head = Head(weight, *inputs[2:], scale=scale, compiled=compiled)
    function = chosen_logprobs_and_entropies if entropy else chosen_logprobs
    found = function(head, hidden, POSITIONS, tokens())
    found = found if entropy else (found,)
    wanted = plain(head, hidden)[: len(found)]
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    gradients = torch.autograd.grad(weighed(found[0]), inputs)
    for one, other in zip(gradients, torch.autograd.grad(weighed(wanted[0]), inputs), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert not entropy or not found[1].requires_grad


def test_the_gradient_is_that_of_finite_differences(rows_at_a_time):
    hidden, weight, bias = (
        drawn(*shape, seed=i, dtype=torch.float64)
        for i, shape in enumerate([(ROWS, WIDTH), (WORDS, WIDTH), (WORDS,)])
    )

    def function(hidden, weight, bias):
        head = Head(weight, bias, 1.3, torch.float64)
        return chosen_logprobs(head, hidden, POSITIONS, tokens())

    assert torch.autograd.gradcheck(function, (hidden, weight, bias))


@pytest.mark.parametrize("trained", ["hidden states", "weight"])
def test_what_is_not_trained_has_no_gradient(trained):
    hidden, weight = drawn(ROWS, WIDTH, seed=1), drawn(WORDS, WIDTH, seed=2)
    fixed, free = (weight, hidden) if trained == "hidden states" else (hidden, weight)
    fixed.requires_grad_(False)
    weighed(chosen_logprobs(Head(weight), hidden, POSITIONS, tokens())).backward()
    assert fixed.grad is None
    found, free.grad = free.grad, None
    weighed(plain(Head(weight), hidden)[0]).backward()
    assert torch.allclose(found, free.grad, atol=1e-5)


def test_tied_embeddings_have_both_gradients(rows_at_a_time):
    weight, ids = drawn(WORDS, WIDTH, seed=2), torch.arange(ROWS) % 5

    def gradient(logprobs_of):
        hidden = torch.nn.functional.embedding(ids, weight)
        weighed(logprobs_of(hidden)).backward()
        found, weight.grad = weight.grad, None
        return found

    found = gradient(lambda x: chosen_logprobs(Head(weight), x, POSITIONS, tokens()))
    assert torch.allclose(found, gradient(lambda x: plain(Head(weight), x)[0]), atol=1e-5)


def test_adapters_of_the_head_are_trained():
    peft = pytest.importorskip("peft")
    linear = torch.nn.Linear(WIDTH, WORDS)
    config = peft.LoraConfig(r=2, target_modules=["0"], init_lora_weights=False)
    layer = peft.get_peft_model(torch.nn.Sequential(linear), config).base_model.model[0]
    hidden = drawn(ROWS, WIDTH, seed=1)
    adapters = [weight for weight in layer.parameters() if weight.requires_grad]
    found = chosen_logprobs(Head.of(layer, 0.5, torch.float32), hidden, POSITIONS, tokens())
    wanted = torch.log_softmax(0.5 * layer(hidden), 1)[POSITIONS, tokens()]
    assert len(adapters) == 2 and torch.allclose(found, wanted, atol=1e-5)
    inputs = [hidden, *adapters]
    gradients = torch.autograd.grad(weighed(found), inputs)
    for one, other in zip(gradients, torch.autograd.grad(weighed(wanted), inputs), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


class LogitRows(TorchDispatchMode):
    """Notes the most rows of all tensors with one column per word."""

    most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        made = [each for each in torch.utils._pytree.tree_leaves(found) if torch.is_tensor(each)]
        rows = [each.numel() // 258 for each in made if each.shape[-1:] == (258,)]
        self.most = max([self.most, *rows])
        return found


PROMPTS = [Prompt(f"p{i}", f"text {i}") for i in range(4)]


def trajectory(draw: np.random.Generator) -> Trajectory:
    asked, answered = draw.integers(5, 9), draw.integers(40, 48)
    tokens = draw.integers(0, 250, asked + answered)
    logprobs = np.full(len(tokens), -2.0, dtype=np.float32)
    return Trajectory(tokens, np.arange(len(tokens)) >= asked, logprobs, 0)


def batch() -> Batch:
    """Answers, and a judgment of all choices for two of their prompts."""
    draw = np.random.default_rng(0)
    groups = [
        Group(prompt, (1.0, 0.0, 0.5), tuple(trajectory(draw) for _ in range(3)))
        for prompt in PROMPTS
    ]
    chats = turns(["What is 1 + 1?", "What is 204 + 31?"], [exemplar("2 + 2?", 0.1)])
    judgments = [
        Judgment(prompt, Continuation(chat, choice, -3.0), 0.1 * i - 0.3, 0.1)
        for prompt, chat in zip(PROMPTS, chats, strict=False)
        for i, choice in enumerate(VARIANCE.choices)
    ]
    return Batch(groups, judgments)


@pytest.fixture(params=["untied", "tied"])
def folder(request, tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["tie_word_embeddings"] = request.param == "tied"
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


def of_all_logits(head, hidden, positions, tokens):
    logits = head.scale * torch.nn.functional.linear(hidden, head.weight, head.bias)
    whole = torch.log_softmax(logits, 1)
    return whole[positions, tokens], -(whole.exp() * whole).sum(1).detach()


def alone(both, *given):
    return both(*given)[0]


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("wide", [False, True])
def test_an_update_never_holds_all_logits_and_is_the_same(
    folder, settings, monkeypatch, lora, wide
):
    if lora:
        pytest.importorskip("peft")
    changes = {"model": str(folder), "lora": lora, "kl": 0.1, "minibatch": 2, "temperature": 0.7}
    metrics, gradients, most = [], [], []
    for both in (of_all_logits, chosen_logprobs_and_entropies):
        monkeypatch.setattr(forward, "chosen_logprobs_and_entropies", both)
        monkeypatch.setattr(forward, "chosen_logprobs", partial(alone, both))
        monkeypatch.setattr(module, "LOGIT_CHUNK", 7 * 258)
        task = build(Arithmetic(prompts=20, heldout=4, levels=(1,)), 0)
        engine = LocalEngine(replace(settings, **changes), task)
        engine.policy.wide = wide
        [part] = local_minibatches(engine.policy, batch(), settings, 0)
        backward(engine.policy, part.items, settings)
        gradients.append([weight.grad for weight in engine.policy.trainable])
        with LogitRows() as rows:
            first = engine.update(batch())
        metrics.append([first, engine.update(batch())])
        most.append(rows.most)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    for one, other in zip(*metrics, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
        assert 0 < one["update/entropy"] < np.log(258)
    width = engine.policy.base.config.hidden_size
    assert most[0] >= 40 > max(7, width) >= most[1] > 0


def test_the_estimate_of_memory_counts_the_head_s_chunk():
    assert estimate.LOGITS == LOGIT_CHUNK
