"""Decoding: GQA without repeat_kv, and a preallocated KV cache.

transformers repeats keys and values for every query head if there is a mask, and copies the KV
cache for every token; both are slow with long contexts.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import sdpa_mask

NAME = "metis_one_token"

ROOM = 64
"""Spare tokens of a KV cache, until it is copied to a larger buffer."""


def folded_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Folds the query heads of a KV group into the sequence dimension (GQA without repeat_kv)."""
    rows, heads, _tokens, size = query.shape
    folded = query.reshape(rows, key.shape[1], -1, size)
    mixed = scaled_dot_product_attention(
        folded, key, value, attn_mask=attention_mask, scale=scaling
    )
    return mixed.reshape(rows, 1, heads, size), None


class GrowableLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """The KV cache of a layer in a preallocated buffer with spare room."""

    buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    @classmethod
    def of(cls, layer: Any) -> "GrowableLayer":
        roomy = cls()
        roomy.lazy_initialization(layer.keys, layer.values)
        roomy.keys, roomy.values = layer.keys, layer.values
        return roomy

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        kept: tuple[Any, Any] = self.keys, self.values
        size, more = kept[0].shape[2], key_states.shape[2]
        if self.buffers is None or self.buffers[0].shape[2] < size + more:
            self.buffers = _room_behind(kept[0], more), _room_behind(kept[1], more)
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, size : size + more] = states
        self.keys, self.values = (buffer[:, :, : size + more] for buffer in self.buffers)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self.buffers = None


def _room_behind(states: torch.Tensor, more: int) -> torch.Tensor:
    rows, heads, size, width = states.shape
    buffer = states.new_empty(rows, heads, size + more + ROOM, width)
    buffer[:, :, :size] = states
    return buffer


AttentionInterface.register(NAME, folded_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
