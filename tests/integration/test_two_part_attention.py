"""Attention over a shared part and a row's own equals one softmax over both, also backwards."""

import pytest
import torch

from metis.engines.local import normalised_attention, two_part_attention

GROUPS, EACH, ROWS, WIDTH, SHARED, SIZE = 2, 3, 4, 8, 21, 16
SCALE = SIZE**-0.5


def one_softmax(query, key, value, bias, shared_key, shared_value, scale):
    """With all keys in one tensor, copied for every row and every head."""
    keys, values = (
        torch.cat([shared.expand(ROWS, -1, -1, -1), own], dim=2).repeat_interleave(EACH, dim=1)
        for shared, own in ((shared_key, key), (shared_value, value))
    )
    whole = torch.cat([bias.new_zeros(*bias.shape[:2], SHARED), bias], dim=2)
    return torch.softmax(query @ keys.mT * scale + whole[:, None], dim=-1) @ values


def inputs(device, kind):
    draw = torch.Generator().manual_seed(0)

    def tensor(*shape):
        return torch.randn(*shape, SIZE, generator=draw).to(device, kind).requires_grad_()

    own = (ROWS, GROUPS, WIDTH)
    unseen = torch.ones(WIDTH, WIDTH, dtype=torch.bool).triu(1).repeat(ROWS, 1, 1)
    unseen[1, 5, 4] = unseen[2, 7, 3] = True
    bias = torch.zeros(unseen.shape).masked_fill(unseen, -torch.inf).to(device, kind)
    query = tensor(ROWS, GROUPS * EACH, WIDTH)
    shared = tensor(GROUPS, SHARED), tensor(GROUPS, SHARED)
    return [query, tensor(*own), tensor(*own), bias, *shared, SCALE]


def found_with(function, given):
    """The result and the gradients."""
    mixed = function(*given)
    weights = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(1))
    learned = [t for t in given[:-1] if t.requires_grad]
    return [mixed.detach(), *torch.autograd.grad(mixed, learned, weights.to(mixed))]


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("kernel", ["cpu", None])
def test_two_parts_are_one_softmax(kernel, each, monkeypatch):
    monkeypatch.setitem(globals(), "EACH", each)
    monkeypatch.setattr(normalised_attention, "_kernel", lambda *tensors: kernel)
    wanted = found_with(one_softmax, inputs("cpu", torch.float64))
    found = found_with(two_part_attention.two_part_attention, inputs("cpu", torch.float32))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.double(), other, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("width", [8, 24, 40])
def test_two_parts_are_one_softmax_on_a_gpu(width, monkeypatch):
    monkeypatch.setitem(globals(), "WIDTH", width)
    wanted = found_with(one_softmax, inputs("cuda", torch.float64))
    given = inputs("cuda", torch.bfloat16)
    assert normalised_attention._kernel(*given[:4]) == "efficient"
    shared = [tensor[None] for tensor in given[4:6]]
    long = two_part_attention._one_row(given[0])
    assert normalised_attention._kernel(long, *shared, None) == "flash"
    found = found_with(two_part_attention.two_part_attention, given)
    for one, other in zip(found, wanted, strict=True):
        assert float((one.double() - other).norm() / other.norm()) < 0.02


def test_torch_takes_it_for_a_sound_operator():
    torch.library.opcheck(two_part_attention._forward, inputs("cpu", torch.float32))
