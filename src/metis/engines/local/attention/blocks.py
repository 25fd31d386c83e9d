"""Block-diagonal attention over packed pieces, some of which continue a shared prefix.

Pieces stand one after the other in one packed sequence. A piece is rows padded to one width, either
plain or after a prefix, which is a piece before it and whose keys and values are never copied.
Pieces attend to nothing else; every other part of a layer runs on the whole sequence at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface

from metis.engines.local.attention import log_sum_exp, two_parts

NAME = "metis_blocks"

MOST = 16
"""The most pieces of a pass."""

ALIGNED = 8
"""Sizes of heads that a GPU's kernels take are multiples of this."""

Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Piece(NamedTuple):
    """Rows padded to one width, and where the prefix is that they continue, if they do."""

    rows: int
    width: int
    start: int = 0
    prefix: int = 0


def supports(network: Any) -> bool:
    """True if a network's attention is plain softmax attention in every layer."""
    config = network.config.get_text_config()
    special = ("attn_logit_softcapping", "alibi", "v_head_dim")
    plain = not windowed(network) and not any(getattr(config, name, None) for name in special)
    return bool(getattr(network, "_supports_attention_backend", False)) and plain


def windowed(network: Any) -> bool:
    """True if some layers have a sliding window."""
    config = network.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ()
    window = getattr(config, "sliding_window", None)
    return bool(window) if not kinds else not {"full_attention"}.issuperset(kinds)


def table(pieces: Sequence[Piece]) -> torch.Tensor:
    """Pieces in a tensor of fixed shape, so that compiled layers need not know of them."""
    assert len(pieces) <= MOST
    first = 0
    for piece in pieces:
        assert not piece.prefix or piece.start + piece.prefix <= first, "prefixes come first"
        first += piece.rows * piece.width
    numbers = torch.zeros(MOST, len(Piece._fields), dtype=torch.int64)
    numbers[: len(pieces)] = torch.tensor(pieces)
    return numbers


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    pieces: torch.Tensor,
    bias: torch.Tensor,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls; the caller gives block table and bias.

    The bias is what all rows after prefixes have, of rows x tokens x keys, one after the other: 0
    where a token sees another of its row, else minus infinity. Tokens of plain rows see all those
    before them in the row.
    """
    size = value.shape[-1]
    by_token = [tensor[0].transpose(0, 1).to(value.dtype) for tensor in (query, key, value)]
    if query.is_cuda and size % ALIGNED:
        by_token = [pad(tensor, (0, -size % ALIGNED)) for tensor in by_token]
    with torch.autocast(query.device.type, enabled=False):
        mixed: torch.Tensor = _forward(*by_token, bias, pieces, scaling)[0]
    return mixed[None, ..., :size], None


AttentionInterface.register(NAME, attend)


# Operators of their own, which torch.compile takes as they are: where pieces begin and end is not
# in what it compiles. Tensors are of tokens x heads x size; heads of queries may share a key's.


@torch.library.custom_op("metis::block_attention", mutates_args=())
def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> Pair:
    """Attention outputs and their log-sum-exp, piece by piece."""
    mixed = torch.empty_like(query, memory_format=torch.contiguous_format)
    total = _log_sum_exps(query)
    for place in _places(pieces, bias):
        queries, keys, values = map(place.rows_of, (query, key, value))
        if place.bias is None:
            pair = log_sum_exp.attend(queries, keys, values, None, scale, causal=True)
        else:
            shared_keys, shared_values = map(place.prefix_of, (key, value))
            pair = two_parts.attend(
                queries, keys, values, place.bias, shared_keys, shared_values, scale
            )
        place.rows_of(mixed).copy_(pair[0])
        place.log_sum_exps_of(total).copy_(pair[1])
    return mixed, total


@torch.library.custom_op("metis::block_attention_backward", mutates_args=())
def _backward(
    gradient: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> Triple:
    """The gradients of queries, keys and values."""
    gradient = gradient.contiguous()
    gradients = [
        torch.empty_like(tensor, memory_format=torch.contiguous_format)
        for tensor in (query, key, value)
    ]
    for place in _places(pieces, bias):
        whole = place.rows_of(gradient), place.rows_of(mixed), place.log_sum_exps_of(total)
        queries, keys, values = map(place.rows_of, (query, key, value))
        own: Sequence[torch.Tensor]
        if place.bias is None:
            own = log_sum_exp.gradients(*whole, queries, keys, values, None, scale, causal=True)
        else:
            shared_keys, shared_values = map(place.prefix_of, (key, value))
            *own, of_keys, of_values = two_parts.gradients(
                *whole, queries, keys, values, place.bias, shared_keys, shared_values, scale
            )
            place.prefix_of(gradients[1]).add_(of_keys)
            place.prefix_of(gradients[2]).add_(of_values)
        for target, source in zip(gradients, own, strict=True):
            place.rows_of(target).copy_(source)
    return gradients[0], gradients[1], gradients[2]


class _Place(NamedTuple):
    """The position of a piece in the sequence."""

    piece: Piece
    first: int
    bias: torch.Tensor | None

    def rows_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of rows x heads x tokens x size."""
        rows, width = self.piece[:2]
        own = tensor[self.first : self.first + rows * width]
        return own.reshape(rows, width, *own.shape[1:]).transpose(1, 2)

    def prefix_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of heads x tokens x size."""
        start = self.piece.start
        return tensor[start : start + self.piece.prefix].transpose(0, 1)

    def log_sum_exps_of(self, total: torch.Tensor) -> torch.Tensor:
        """A view of rows x heads x tokens."""
        rows, width = self.piece[:2]
        own = total[self.first : self.first + rows * width]
        return own.view(rows, total.shape[1], width)


def _places(pieces: torch.Tensor, bias: torch.Tensor) -> Iterator[_Place]:
    first = used = 0
    for numbers in pieces.tolist():
        piece = Piece(*numbers)
        size = piece.rows * piece.width
        own = None
        if piece.prefix:
            own = bias[used : used + size * piece.width].view(piece.rows, piece.width, piece.width)
            used += size * piece.width
        if size:
            yield _Place(piece, first, own)
        first += size


def _log_sum_exps(query: torch.Tensor) -> torch.Tensor:
    """A buffer of tokens x heads; a piece's place knows the order of its own log-sum-exps."""
    precise = torch.promote_types(query.dtype, torch.float32)
    return query.new_empty(query.shape[:2], dtype=precise)


@_forward.register_fake
def _(query: torch.Tensor, *_: Any) -> Pair:
    return query.new_empty(query.shape), _log_sum_exps(query)


@_backward.register_fake
def _(*given: Any) -> Triple:
    query, key, value = (tensor.new_empty(tensor.shape) for tensor in given[3:6])
    return query, key, value


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*output, *tensors)


def _gradients(
    context: Any, gradient: torch.Tensor, _: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    gradients = _backward(gradient, *context.saved_tensors, context.scale)
    return *gradients, None, None, None


_forward.register_autograd(_gradients, setup_context=_remember)
