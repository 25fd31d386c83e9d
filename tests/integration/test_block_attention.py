"""Attention in pieces equals one softmax over all that a token sees, also backwards."""

import pytest
import torch

import skips
from metis.engines.local.attention import blocks, log_sum_exp, varlen
from metis.engines.local.attention.blocks import Segment
from metis.engines.local.model.cuda_graphs import GraphRecorder

GROUPS, SIZE = 2, 16
PIECES = {
    "plain rows": [Segment(3, 8)],
    "rows on a prefix": [Segment(1, 21), Segment(4, 8, 0, 21)],
    "strips on a prefix": [Segment(1, 16), Segment(4, 8, 0, 16), Segment(1, 40, 0, 16)],
    "plain rows and strips": [
        Segment(3, 16),
        Segment(1, 8),
        Segment(2, 8, 48, 8),
        Segment(3, 16, 48, 8),
    ],
    "rows of any length": [Segment(1, width) for width in range(1, 20)],
    "rows of any length, and strips": [
        Segment(1, 5),
        Segment(1, 11),
        Segment(1, 8),
        Segment(2, 8, 16, 8),
        Segment(1, 7),
    ],
    "two prefixes": [Segment(1, 8), Segment(2, 8, 0, 8), Segment(1, 16), Segment(2, 8, 24, 16)],
}
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason=skips.GPU)


def biases(pieces):
    """Causal masks of rows on prefixes, with a token left out here and there."""
    draw = torch.Generator().manual_seed(2)
    found = []
    for rows, width, _, prefix in pieces:
        if prefix:
            sees = torch.ones(width, width).tril().bool().repeat(rows, 1, 1)
            sees &= (torch.rand(sees.shape, generator=draw) < 0.8) | torch.eye(width).bool()
            found.append(torch.zeros(sees.shape).masked_fill(~sees, -torch.inf))
    return found


def one_softmax(query, key, value, _, pieces, scale):
    """With one mask over the whole sequence, and keys copied for every head."""
    tokens = query.shape[0]
    sees = torch.zeros(tokens, tokens, dtype=torch.bool)
    left = biases(pieces)
    first = 0
    for rows, width, start, prefix in pieces:
        own = (
            left.pop(0) == 0
            if prefix
            else torch.ones(width, width).tril().bool().repeat(rows, 1, 1)
        )
        for row in range(rows):
            here = slice(first, first + width)
            sees[here, here] = own[row]
            sees[here, start : start + prefix] = True
            first += width
    each = query.shape[1] // key.shape[1]
    queries, keys, values = (
        tensor.transpose(0, 1).repeat_interleave(copies, dim=0)
        for tensor, copies in ((query, 1), (key, each), (value, each))
    )
    scores = (queries @ keys.mT * scale).masked_fill(~sees.to(query.device), -torch.inf)
    return (torch.softmax(scores, dim=-1) @ values).transpose(0, 1)


def in_pieces(query, key, value, bias, pieces, scale):
    return blocks._forward(query, key, value, bias, blocks.segment_table(pieces), scale)[0]


def inputs(pieces, each, device, kind, size=SIZE):
    draw = torch.Generator().manual_seed(0)
    tokens = sum(rows * width for rows, width, *_ in pieces)

    def tensor(heads):
        values = torch.randn(tokens, heads, size, generator=draw)
        return values.to(device, kind).requires_grad_()

    bias = torch.cat([torch.empty(0), *(bias.flatten() for bias in biases(pieces))])
    learned = [tensor(GROUPS * each), tensor(GROUPS), tensor(GROUPS)]
    return [*learned, bias.to(device, kind), pieces, size**-0.5]


def found_with(function, given):
    """The result and the gradients."""
    mixed = function(*given)
    weights = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(1))
    return [mixed.detach(), *torch.autograd.grad(mixed, given[:3], weights.to(mixed))]


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("kernel", ["cpu", None])
def test_pieces_are_one_softmax(pieces, each, kernel, monkeypatch):
    monkeypatch.setattr(log_sum_exp, "kernel", lambda *given: kernel)
    wanted = found_with(one_softmax, inputs(pieces, each, "cpu", torch.float64))
    found = found_with(in_pieces, inputs(pieces, each, "cpu", torch.float32))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.double(), other, atol=1e-5)


def rows_one_by_one(query, key, value, lengths, scale):
    """What the kernel for packed rows computes: outputs, and log-sum-exps as heads x tokens."""
    found = [
        log_sum_exp.attention_with_lse(*row, None, scale, causal=True)
        for row in rows(lengths, query, key, value)
    ]
    mixed = torch.cat([each[0].transpose(0, 1) for (each, _) in found])
    return mixed, torch.cat([total[0] for _, total in found], dim=1)


def gradients_one_by_one(gradient, mixed, total, query, key, value, lengths, scale):
    totals = [each[None] for each in total.split(list(lengths), dim=1)]
    found = []
    for row, its in zip(rows(lengths, gradient, mixed, query, key, value), totals, strict=True):
        triple = log_sum_exp.attention_backward(*row[:2], its, *row[2:], None, scale, causal=True)
        found.append([each[0].transpose(0, 1) for each in triple])
    return tuple(torch.cat(each) for each in zip(*found, strict=True))


def rows(lengths, *tensors):
    """Each row of packed tensors, as a batch of one."""
    cut = [tensor.transpose(0, 1).split(list(lengths), dim=1) for tensor in tensors]
    return [[each[None] for each in row] for row in zip(*cut, strict=True)]


def runs_of(pieces):
    """Lengths of successive plain rows; a row alone has a kernel that uploads nothing."""
    found, last = [], []
    for rows, width, _, prefix in [*pieces, Segment(0, 0, 0, 1)]:
        if not prefix:
            last += rows * [width]
            continue
        found += [last] if len(last) > 1 else []
        last = []
    return found


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_plain_rows_go_to_one_kernel_together(pieces, monkeypatch):
    runs = []

    def attention(*given):
        runs.append(given[3])
        return rows_one_by_one(*given)

    monkeypatch.setattr(varlen, "works", lambda *given: True)
    monkeypatch.setattr(varlen, "attention", attention)
    monkeypatch.setattr(varlen, "attention_backward", gradients_one_by_one)
    wanted = found_with(one_softmax, inputs(pieces, 3, "cpu", torch.float64))
    found = found_with(in_pieces, inputs(pieces, 3, "cpu", torch.float32))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.double(), other, atol=1e-5)
    assert runs == runs_of(pieces)


@GPU
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("flash", [True, False])
def test_pieces_are_one_softmax_on_a_gpu(pieces, flash, monkeypatch):
    if not flash:
        monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", lambda asked: False)
    assert varlen.works_on(torch.device("cuda"), torch.bfloat16, SIZE) == flash
    wanted = found_with(one_softmax, inputs(pieces, 3, "cuda", torch.float64))
    found = found_with(in_pieces, inputs(pieces, 3, "cuda", torch.bfloat16))
    for one, other in zip(found, wanted, strict=True):
        assert float((one.double() - other).norm() / other.norm()) < 0.02


@GPU
def test_a_captured_scoring_pass_is_the_same_when_replayed():
    *tensors, pieces, scale = inputs(PIECES["two prefixes"], 3, "cuda", torch.bfloat16)
    table, recorder = blocks.segment_table(pieces), GraphRecorder(torch.device("cuda"))

    def scored(*given):
        return blocks._forward(*given, table, scale)[0]

    with torch.no_grad():
        wanted = scored(*tensors).clone()
        for _ in range(3):
            assert torch.allclose(recorder.run("key", scored, tensors), wanted)
    assert recorder.works and recorder.recordings


@GPU
def test_no_weights_are_written_down_on_a_gpu():
    query, key, value = (torch.zeros(2, 6, 8, 16, device="cuda").bfloat16() for _ in range(3))
    bias = torch.zeros(2, 8, 8, device="cuda").bfloat16()
    assert log_sum_exp.kernel(query, key, value, bias, False) == "efficient"
    assert log_sum_exp.kernel(query, key, value, None, True) == "flash"


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_torch_takes_it_for_a_sound_operator(pieces):
    *tensors, pieces, scale = inputs(pieces, 3, "cpu", torch.float32)
    torch.library.opcheck(blocks._forward, (*tensors, blocks.segment_table(pieces), scale))
