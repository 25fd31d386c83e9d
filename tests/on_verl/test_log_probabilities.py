"""The stand-in for flash-attn's log-probabilities is verl's own, for packed rows and many."""

import pytest
import torch
from verl.utils import torch_functional

from metis.engines.verl.workers import log_probabilities

HERE = log_probabilities.log_probabilities


def drawn(shape, dtype=torch.float32, entries=37):
    draw = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(*shape, entries, generator=draw)).to(dtype)
    return logits.requires_grad_(), torch.randint(entries, shape, generator=draw)


def test_verl_takes_it_where_the_trainer_is_imported():
    import metis.engines.verl.trainer  # noqa: F401

    logits, labels = drawn((5,))
    assert torch_functional.logprobs_from_logits_v2 is HERE
    assert torch.equal(torch_functional.logprobs_from_logits(logits, labels), HERE(logits, labels))


@pytest.mark.parametrize("shape", [(0,), (1,), (11,), (3, 4)])
def test_values_and_gradients_are_those_of_the_softmax(shape, monkeypatch):
    monkeypatch.setattr(log_probabilities, "ROWS", 4)
    logits, labels = drawn(shape)
    found = HERE(logits, labels)
    expected = torch_functional.logprobs_from_logits_naive(logits, labels)
    torch.testing.assert_close(found, expected)
    weights = torch.linspace(-1, 1, labels.numel()).view(shape)
    (gradient,) = torch.autograd.grad((weights * found).sum(), logits)
    torch.testing.assert_close(gradient, torch.autograd.grad((weights * expected).sum(), logits)[0])


def test_the_gradient_is_that_of_finite_differences(monkeypatch):
    monkeypatch.setattr(log_probabilities, "ROWS", 2)
    logits, labels = drawn((3,), torch.float64, entries=5)
    assert torch.autograd.gradcheck(HERE, (logits, labels))


def test_half_precision_is_that_of_the_logits_alone():
    logits, labels = drawn((200,), torch.bfloat16, entries=1000)
    exact = torch_functional.logprobs_from_logits_naive(logits.double(), labels)
    found = HERE(logits, labels)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    assert gradient.dtype is torch.bfloat16
    (expected,) = torch.autograd.grad(exact.sum(), logits)
    torch.testing.assert_close(gradient, expected)
