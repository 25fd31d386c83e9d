"""Attention of many short rows over one long prefix, whose keys and values are never copied.

Prefix and rows pass through the network as one sequence. In it the prefix sees itself; all rows
meet the prefix in one product and themselves in another, and one softmax spans both.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

NAME = "metis_shared_prefix"

KEPT = 1 << 26
"""Attention weights of a layer up to this number are kept for the backward pass."""


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
    attention_mask: torch.Tensor,
    scaling: float,
    prefix: int,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in place of its own attention; `prefix` comes from the caller.

    The mask says what the tokens of every row see of their row.
    """
    kind = value.dtype
    tensors = (query.to(kind) * scaling, key.to(kind), value)
    before = [tensor[0, :, :prefix] for tensor in tensors]
    rows = [tensor[0, :, prefix:] for tensor in tensors]
    with torch.autocast(query.device.type, enabled=False):
        first = _over_itself(*before)
        arguments = (*rows, attention_mask[:, 0], *before[1:])
        weights = rows[0].shape[0] * rows[0].shape[1] * (prefix + attention_mask.shape[-1])
        if torch.is_grad_enabled() and weights > KEPT:
            second = checkpoint(_over_prefix_and_row, *arguments, use_reentrant=False)
        else:
            second = _over_prefix_and_row(*arguments)
    return torch.cat([first, second], dim=1).transpose(0, 1)[None], None


def _over_itself(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    each = len(query) // len(key)  # query heads that share their keys and values
    key, value = key.repeat_interleave(each, 0), value.repeat_interleave(each, 0)
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0)


def _over_prefix_and_row(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor,
    prefix_key: torch.Tensor,
    prefix_value: torch.Tensor,
) -> torch.Tensor:
    """Tensors of heads x tokens x size, the tokens of all rows one after the other."""
    rows, width, _ = sees.shape
    shared, size = prefix_key.shape[1:]
    groups, tokens = len(key), rows * width
    query = query.reshape(groups, -1, rows, width, size)
    key, value = (tensor.reshape(groups, 1, rows, width, size) for tensor in (key, value))
    past = query.flatten(1, 3) @ prefix_key.mT
    own = (query @ key.mT).masked_fill(~sees, float("-inf"))
    past = past.view(*own.shape[:-1], shared)
    weights = torch.softmax(torch.cat([past, own], dim=-1), dim=-1)
    mixed = weights[..., :shared].flatten(1, 3) @ prefix_value
    mixed = mixed.view(query.shape) + weights[..., shared:] @ value
    return mixed.view(-1, tokens, size)


AttentionInterface.register(NAME, attend)
