"""Attention within blocks that pass through the network one after the other, as one sequence.

A block is plain rows side by side, or short rows after one long prefix, whose keys and values are
never copied. Blocks do not see each other, yet all else a layer does, it does for all at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from metis.engines.local.two_part_attention import two_part_attention

NAME = "metis_blocks"


class Block(NamedTuple):
    """Where a block's tokens are: its prefix, then strips of rows, each padded to one width."""

    prefix: int
    strips: tuple[tuple[int, int], ...]
    """Rows and width of each."""

    @property
    def size(self) -> int:
        return self.prefix + sum(rows * width for rows, width in self.strips)


def supports(network: Any) -> bool:
    """Whether a network's attention is the plain one, in every layer."""
    config = network.config.get_text_config()
    special = ("attn_logit_softcapping", "sliding_window", "alibi", "v_head_dim")
    plain = not windowed(network) and not any(getattr(config, name, None) for name in special)
    return bool(getattr(network, "_supports_attention_backend", False)) and plain


def windowed(network: Any) -> bool:
    """Whether layers differ in what they see."""
    kinds = getattr(network.config.get_text_config(), "layer_types", None) or ()
    return not {"full_attention"}.issuperset(kinds)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    blocks: Sequence[Block],
    biases: Sequence[torch.Tensor | None],
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in place of its own attention; the caller gives blocks and biases.

    There is a bias for each strip, of rows x tokens x keys: 0 where a token sees another of its
    row, else minus infinity. None, which goes with no prefix, lets tokens see those before them.
    """
    sizes = [block.size for block in blocks]
    by_token = [tensor[0].transpose(0, 1).to(value.dtype) for tensor in (query, key, value)]
    parts = zip(*(torch.split(tensor, sizes) for tensor in by_token), strict=True)
    left = list(biases)
    mixed: list[torch.Tensor] = []
    with torch.autocast(query.device.type, enabled=False):
        for block, part in zip(blocks, parts, strict=True):
            own, left = left[: len(block.strips)], left[len(block.strips) :]
            mixed += _in_block(block, own, part, scaling)
    return torch.cat(mixed)[None], None


def _in_block(
    block: Block,
    biases: Sequence[torch.Tensor | None],
    part: Sequence[torch.Tensor],
    scale: float,
) -> Iterator[torch.Tensor]:
    """Query, key and value are of tokens x heads x size; heads of the query may share a key's."""
    first, keys, values = (tensor[: block.prefix].transpose(0, 1) for tensor in part)
    if block.prefix:
        yield _causal(first[None], keys[None], values[None], scale)[0].transpose(0, 1)
    start = block.prefix
    for (rows, width), bias in zip(block.strips, biases, strict=True):
        stop = start + rows * width
        query, key, value = (
            tensor[start:stop].reshape(rows, width, *tensor.shape[1:]).transpose(1, 2)
            for tensor in part
        )
        if bias is None:
            mixed = _causal(query, key, value, scale)
        else:
            mixed = two_part_attention(query, key, value, bias, keys, values, scale)
        yield mixed.transpose(1, 2).flatten(0, 1)
        start = stop


def _causal(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    if query.device.type == "mps":  # where older versions of torch crash on heads that share keys
        each = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(each, dim=1) for tensor in (key, value))
    return scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scale, enable_gqa=True
    )


AttentionInterface.register(NAME, attend)
