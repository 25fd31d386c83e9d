"""Attention of many short rows over one long prefix, whose keys and values are never copied.

A cache would hold the prefix once for every row. Here all queries meet it in one product, meet
their own row in another, and one softmax spans both.
"""

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

NAME = "metis_shared_prefix"

KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Of the prefix, by layer: two tensors of 1 x heads x tokens x size."""


def supports(network: Any) -> bool:
    """Whether a network's attention is the plain one, in every layer."""
    config = network.config.get_text_config()
    windowed = {"full_attention"} != set(getattr(config, "layer_types", None) or ["full_attention"])
    special = ("attn_logit_softcapping", "sliding_window", "alibi")
    plain = not windowed and not any(getattr(config, name, None) for name in special)
    return bool(getattr(network, "_supports_attention_backend", False)) and plain


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float,
    shared: KeysAndValues,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in place of its own attention; `shared` comes from the caller."""
    kind = value.dtype
    before = (tensor[0].to(kind) for tensor in shared[module.layer_idx])
    arguments = (query.to(kind) * scaling, key.to(kind), value, attention_mask, *before)
    if torch.is_grad_enabled():  # the weights are large, and quickly made again
        return checkpoint(_attention, *arguments, use_reentrant=False), None
    return _attention(*arguments), None


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor,
    prefix_key: torch.Tensor,
    prefix_value: torch.Tensor,
) -> torch.Tensor:
    rows, heads, width, size = query.shape
    groups, shared, _ = prefix_key.shape
    each = heads // groups  # query heads that share their keys and values
    key, value = key.transpose(0, 1), value.transpose(0, 1)
    query = query.reshape(rows, groups, each * width, size).transpose(0, 1)
    past = query.reshape(groups, -1, size) @ prefix_key.mT
    own = (query @ key.mT).view(groups, rows, each, width, width)
    own = own.masked_fill(~sees, float("-inf"))
    logits = torch.cat([past.view(groups, rows, each, width, shared), own], dim=-1)
    weights = torch.softmax(logits, dim=-1, dtype=torch.float32).to(value.dtype)
    mixed = weights[..., :shared].flatten(1, 3) @ prefix_value
    mixed = mixed.view(query.shape) + weights[..., shared:].flatten(2, 3) @ value
    return mixed.view(groups, rows, each, width, size).permute(1, 3, 0, 2, 4).flatten(2, 3)


AttentionInterface.register(NAME, attend)
