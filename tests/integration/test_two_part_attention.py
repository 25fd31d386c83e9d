"""Attention over a shared part and a row's own equals one softmax over both, also backwards."""

import pytest
import torch

from metis.engines.local import two_part_attention

GROUPS, EACH, ROWS, WIDTH, SHARED, SIZE = 2, 3, 4, 8, 21, 16


def one_softmax(query, key, value, sees, shared_key, shared_value):
    """With all keys in one tensor, copied for every row."""
    rows = query.shape[1]
    keys, values = (
        torch.cat([shared[:, None].expand(-1, rows, -1, -1), own], dim=2)
        for shared, own in ((shared_key, key), (shared_value, value))
    )
    visible = torch.cat([sees.new_ones(*sees.shape[:2], shared_key.shape[1]), sees], dim=2)
    scores = (query @ keys.mT).masked_fill(~visible.repeat(1, EACH, 1), float("-inf"))
    return torch.softmax(scores, dim=-1) @ values


def inputs(device):
    draw = torch.Generator().manual_seed(0)

    def tensor(*shape):
        return torch.randn(*shape, SIZE, generator=draw).to(device)

    own = (GROUPS, ROWS, WIDTH)
    sees = torch.ones(WIDTH, WIDTH, dtype=torch.bool).tril().repeat(ROWS, 1, 1)
    sees[1, 5, 4] = sees[2, 7, 3] = False
    return [
        tensor(GROUPS, ROWS, EACH * WIDTH) * SIZE**-0.5,
        tensor(*own),
        tensor(*own),
        sees.to(device),
        tensor(GROUPS, SHARED),
        tensor(GROUPS, SHARED),
    ]


def found_with(function, given, kind):
    """The result and the gradients, of tensors of a kind."""
    tensors = [t if t.dtype == torch.bool else t.to(kind).requires_grad_() for t in given]
    mixed = function(*tensors)
    weights = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(1))
    learned = [t for t in tensors if t.requires_grad]
    return [mixed, *torch.autograd.grad(mixed, learned, weights.to(mixed))]


@pytest.mark.parametrize("kernel", ["cpu", None])
def test_two_parts_are_one_softmax(kernel, monkeypatch):
    monkeypatch.setattr(two_part_attention, "_kernel", lambda *tensors: kernel)
    given = inputs("cpu")
    wanted = found_with(one_softmax, given, torch.float64)
    found = found_with(two_part_attention.two_part_attention, given, torch.float32)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.double(), other, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_two_parts_are_one_softmax_on_a_gpu():
    given = inputs("cuda")
    wanted = found_with(one_softmax, given, torch.float64)
    found = found_with(two_part_attention.two_part_attention, given, torch.bfloat16)
    for one, other in zip(found, wanted, strict=True):
        assert float((one.double() - other).norm() / other.norm()) < 0.02


def test_torch_takes_it_for_a_sound_operator():
    given = [t if t.dtype == torch.bool else t.requires_grad_() for t in inputs("cpu")]
    torch.library.opcheck(two_part_attention._forward, given)
