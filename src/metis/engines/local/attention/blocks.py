"""Block-diagonal attention over packed segments, which may share a prefix.

All segments are packed into one sequence. A segment is rows padded to one width, either plain or
with a prefix: an earlier segment, whose keys and values are never copied. Attention stays within a
segment and its prefix; every other part of a layer runs on the whole packed sequence.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface

from metis.engines.local.attention import log_sum_exp, two_parts, varlen

NAME = "metis_blocks"

LEAST = 16
"""The least rows of a segment table; larger ones have a power of two."""

ALIGNED = 8
"""GPU kernels need head dimensions that are multiples of this."""

Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Segment(NamedTuple):
    """Rows padded to one width, and the start and length of their prefix (0 for none)."""

    rows: int
    width: int
    start: int = 0
    prefix: int = 0


def supports(network: Any) -> bool:
    """True if every layer has plain softmax attention (no window, soft cap, ALiBi or mask)."""
    config = network.config.get_text_config()
    special = (
        "attn_logit_softcapping",
        "alibi",
        "v_head_dim",
        "keep_window_size",
        "lambda_std_dev",
    )
    plain = not windowed(network) and not any(getattr(config, name, None) for name in special)
    return bool(getattr(network, "_supports_attention_backend", False)) and plain


def windowed(network: Any) -> bool:
    """True if some layers use sliding-window attention."""
    config = network.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ()
    window = getattr(config, "sliding_window", None)
    return bool(window) if not kinds else not {"full_attention"}.issuperset(kinds)


def packs(network: Any, device: torch.device, dtype: torch.dtype) -> bool:
    """True if rows of any lengths can be packed without padding, with one kernel for all."""
    config = network.config.get_text_config()
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return varlen.works_on(device, dtype, size + -size % ALIGNED)


def segment_table(segments: Sequence[Segment]) -> torch.Tensor:
    """The segments as a tensor of few shapes, so that compiled layers need no recompilation."""
    first = 0
    for segment in segments:
        assert not segment.prefix or segment.start + segment.prefix <= first, "prefixes come first"
        first += segment.rows * segment.width
    rows = max(LEAST, 1 << (len(segments) - 1).bit_length())
    numbers = torch.zeros(rows, len(Segment._fields), dtype=torch.int64)
    numbers[: len(segments)] = torch.tensor(segments)
    return numbers


def packed_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    segments: torch.Tensor,
    bias: torch.Tensor,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function registered with transformers; takes segment table and bias.

    The bias is the flattened attention mask (rows x tokens x keys) of all rows with a prefix: 0
    where a token sees another of its row, else -inf. Plain rows are causal.
    """
    assert attention_mask is None, "packed rows have no mask but their segments"
    size = value.shape[-1]
    by_token = [tensor[0].transpose(0, 1).to(value.dtype) for tensor in (query, key, value)]
    if query.is_cuda and size % ALIGNED:
        by_token = [pad(tensor, (0, -size % ALIGNED)) for tensor in by_token]
    with torch.autocast(query.device.type, enabled=False):
        mixed: torch.Tensor = _forward(*by_token, bias, segments, scaling)[0]
    return mixed[None, ..., :size], None


AttentionInterface.register(NAME, packed_attention)


# Custom operators, opaque to torch.compile, so that segment boundaries cause no recompilation.
# Tensors are tokens x heads x head_dim, with grouped-query attention.


@torch.library.custom_op("metis::block_attention", mutates_args=())
def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    segments: torch.Tensor,
    scale: float,
) -> Pair:
    """Attention outputs and log-sum-exps, segment by segment."""
    mixed = torch.empty_like(query, memory_format=torch.contiguous_format)
    total = _log_sum_exps(query)
    for place in _places(segments, bias, varlen.works(query, key, value)):
        queries, keys, values = map(place.rows_of, (query, key, value))
        if isinstance(place, _Run):
            pair = varlen.attention(queries, keys, values, place.lengths, scale)
        elif place.bias is None:
            pair = log_sum_exp.attention_with_lse(queries, keys, values, None, scale, causal=True)
        else:
            shared_keys, shared_values = map(place.prefix_of, (key, value))
            pair = two_parts.prefix_attention(
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
    segments: torch.Tensor,
    scale: float,
) -> Triple:
    """The gradients of queries, keys and values."""
    gradient = gradient.contiguous()
    gradients = [
        torch.empty_like(tensor, memory_format=torch.contiguous_format)
        for tensor in (query, key, value)
    ]
    for place in _places(segments, bias, varlen.works(query, key, value)):
        whole = place.rows_of(gradient), place.rows_of(mixed), place.log_sum_exps_of(total)
        queries, keys, values = map(place.rows_of, (query, key, value))
        own: Sequence[torch.Tensor]
        if isinstance(place, _Run):
            own = varlen.attention_backward(*whole, queries, keys, values, place.lengths, scale)
        elif place.bias is None:
            own = log_sum_exp.attention_backward(
                *whole, queries, keys, values, None, scale, causal=True
            )
        else:
            shared_keys, shared_values = map(place.prefix_of, (key, value))
            *own, of_keys, of_values = two_parts.prefix_attention_backward(
                *whole, queries, keys, values, place.bias, shared_keys, shared_values, scale
            )
            place.prefix_of(gradients[1]).add_(of_keys)
            place.prefix_of(gradients[2]).add_(of_values)
        for target, source in zip(gradients, own, strict=True):
            place.rows_of(target).copy_(source)
    return gradients[0], gradients[1], gradients[2]


class _Place(NamedTuple):
    """A segment, its offset in the packed sequence, and its bias."""

    segment: Segment
    first: int
    bias: torch.Tensor | None

    def rows_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of rows x heads x tokens x size."""
        rows, width = self.segment[:2]
        own = tensor[self.first : self.first + rows * width]
        return own.reshape(rows, width, *own.shape[1:]).transpose(1, 2)

    def prefix_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of heads x tokens x size."""
        start = self.segment.start
        return tensor[start : start + self.segment.prefix].transpose(0, 1)

    def log_sum_exps_of(self, total: torch.Tensor) -> torch.Tensor:
        """A view of rows x heads x tokens."""
        rows, width = self.segment[:2]
        own = total[self.first : self.first + rows * width]
        return own.view(rows, total.shape[1], width)


class _Run(NamedTuple):
    """Successive plain rows: their offset in the packed sequence, and their lengths."""

    first: int
    lengths: list[int]

    def rows_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of tokens x heads x size."""
        return tensor[self.first : self.first + sum(self.lengths)]

    def log_sum_exps_of(self, total: torch.Tensor) -> torch.Tensor:
        """A view of heads x tokens."""
        own = self.rows_of(total)
        return own.view(total.shape[1], len(own))


def _places(segments: torch.Tensor, bias: torch.Tensor, runs: bool) -> Iterator[_Place | _Run]:
    """The parts of a packed sequence in order; with `runs`, successive plain rows together.

    A row alone is none: `varlen` uploads lengths, which a CUDA graph of a scoring pass must not.
    """
    first = used = 0
    parts = (
        each for each in itertools.starmap(Segment, segments.tolist()) if each.rows * each.width
    )
    for plain, some in itertools.groupby(parts, lambda segment: not segment.prefix):
        together = list(some)
        lengths = [segment.width for segment in together for _ in range(segment.rows)]
        if runs and plain and len(lengths) > 1:
            yield _Run(first, lengths)
            first += sum(lengths)
            continue
        for segment in together:
            rows, width = segment[:2]
            own = None
            if segment.prefix:
                size = rows * width * width
                own = bias[used : used + size].view(rows, width, width)
                used += size
            yield _Place(segment, first, own)
            first += rows * width


def _log_sum_exps(query: torch.Tensor) -> torch.Tensor:
    """A buffer of tokens x heads; the layout inside a segment is that of `log_sum_exps_of`."""
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
