"""Attention within blocks that pass through the network one after the other, as one sequence.

A block is plain rows side by side, or short rows after one long prefix, whose keys and values are
never copied: all rows meet the prefix in one product and themselves in another, and one softmax
spans both. Blocks do not see each other, yet all else a layer does, it does for all at once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

NAME = "metis_blocks"

KEPT = 1 << 26
"""Attention weights of a layer up to this number are kept for the backward pass."""


class Block(NamedTuple):
    """Where a block's tokens are: its prefix, then its rows, padded to one width."""

    prefix: int
    rows: int
    width: int
    sees: torch.Tensor | None
    """What the tokens of every row see of it; None, which goes with no prefix, is all before."""

    @property
    def size(self) -> int:
        return self.prefix + self.rows * self.width


def supports(network: Any) -> bool:
    """Whether a network's attention is the plain one, in every layer."""
    config = network.config.get_text_config()
    special = ("attn_logit_softcapping", "sliding_window", "alibi")
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
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in place of its own attention; `blocks` comes from the caller."""
    kind = value.dtype
    tensors = ((query.to(kind) * scaling)[0], key.to(kind)[0], value[0])
    mixed, start = [], 0
    with torch.autocast(query.device.type, enabled=False):
        for block in blocks:
            part = [tensor[:, start : start + block.size] for tensor in tensors]
            if block.sees is None:
                mixed.append(_rows_alone(block, *part))
            else:
                mixed.append(_prefixed(block, block.sees, *part))
            start += block.size
    return torch.cat(mixed, dim=1).transpose(0, 1)[None], None


def _rows_alone(
    block: Block, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    """Tensors are of heads x tokens x size; several heads of the query may share a key's."""
    rows = [
        tensor.reshape(len(tensor), block.rows, block.width, -1).transpose(0, 1)
        for tensor in (query, key, value)
    ]
    return _causal(*rows).transpose(0, 1).flatten(1, 2)


def _prefixed(
    block: Block, sees: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    before = [tensor[:, : block.prefix] for tensor in (query, key, value)]
    rows = [tensor[:, block.prefix :] for tensor in (query, key, value)]
    first = _causal(*(tensor[None] for tensor in before))[0]
    arguments = (*rows, sees, *before[1:])
    weights = len(query) * block.rows * block.width * (block.prefix + block.width)
    if torch.is_grad_enabled() and weights > KEPT:
        second = checkpoint(_over_prefix_and_row, *arguments, use_reentrant=False)
    else:
        second = _over_prefix_and_row(*arguments)
    return torch.cat([first, second], dim=1)


def _causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=1.0, enable_gqa=True
    )


def _over_prefix_and_row(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor,
    prefix_key: torch.Tensor,
    prefix_value: torch.Tensor,
) -> torch.Tensor:
    """The tokens of all rows stand one after the other. One softmax, never in one tensor."""
    rows, width, _ = sees.shape
    size = query.shape[-1]
    groups, tokens = len(key), rows * width
    query = query.reshape(groups, -1, rows, width, size)
    key, value = (tensor.reshape(groups, 1, rows, width, size) for tensor in (key, value))
    past = query.flatten(1, 3) @ prefix_key.mT
    own = (query @ key.mT).masked_fill(~sees, float("-inf"))
    each = own.shape[:-1]
    highest = torch.maximum(past.amax(-1).view(each), own.amax(-1)).detach().float()
    past = torch.exp(past - highest.view(groups, -1, 1))
    own = torch.exp(own - highest[..., None])
    total = past.sum(-1).view(each) + own.sum(-1)
    mixed = (past.to(value.dtype) @ prefix_value).view(query.shape) + own.to(value.dtype) @ value
    return (mixed / total[..., None]).to(value.dtype).view(-1, tokens, size)


AttentionInterface.register(NAME, attend)
