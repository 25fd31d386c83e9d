"""Attention within blocks that pass through the network one after the other, as one sequence.

A block is plain rows side by side, or short rows after one long prefix, whose keys and values are
never copied. Blocks do not see each other, yet all else a layer does, it does for all at once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from metis.engines.local.two_part_attention import two_part_attention

NAME = "metis_blocks"


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
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in place of its own attention; `blocks` comes from the caller."""
    kind = value.dtype
    tensors = ((query * scaling).to(kind)[0], key.to(kind)[0], value[0])
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
    after = [tensor[:, block.prefix :] for tensor in (query, key, value)]
    first = _causal(*(tensor[None] for tensor in before))[0]
    groups, each = len(key), len(query) // len(key)
    rows, width = block.rows, block.width
    queries = after[0].reshape(groups, each, rows, width, -1).transpose(1, 2)
    mixed = two_part_attention(
        query=queries.reshape(groups, rows, each * width, -1),
        key=after[1].reshape(groups, rows, width, -1),
        value=after[2].reshape(groups, rows, width, -1),
        sees=sees,
        shared_key=before[1],
        shared_value=before[2],
    )
    second = mixed.view(queries.shape).transpose(1, 2).reshape(len(query), -1, query.shape[-1])
    return torch.cat([first, second], dim=1)


def _causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if query.device.type == "mps":  # where older versions of torch crash on heads that share keys
        each = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(each, dim=1) for tensor in (key, value))
    return scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=1.0, enable_gqa=True
    )


AttentionInterface.register(NAME, attend)
