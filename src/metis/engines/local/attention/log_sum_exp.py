"""Attention that also returns its log-sum-exp (LSE), with the fastest kernel of the device.

Tensors are rows x heads x tokens x head_dim, with grouped-query attention (GQA). A bias of rows x
tokens x keys is added to the scores of every head; without one, attention may be causal. With the
LSE, outputs over disjoint sets of keys can be merged exactly (online softmax). The backward pass
takes the merged output and LSE.
"""

from typing import Literal

import torch

Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_aten = torch.ops.aten

_PADDED = 32
"""The memory-efficient kernel pads the LSEs of a row to a multiple of this."""


def attention_with_lse(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
    causal: bool = False,
) -> Pair:
    """Returns the attention output and the log-sum-exp of the scores."""
    fused = kernel(query, key, value, bias, causal)
    if fused == "flash":
        mixed, total, *_ = _aten._scaled_dot_product_flash_attention(
            query, key, value, 0.0, causal, scale=scale
        )
        return mixed, total
    keys, values = (_for_every_head(tensor, query) for tensor in (key, value))
    mask = _bias_of_heads(bias, query)
    if fused == "efficient":
        mixed, total, *_ = _aten._scaled_dot_product_efficient_attention(
            query, keys, values, mask, True, 0.0, causal, scale=scale
        )
        return mixed, total[..., : query.shape[2]]
    if fused == "cpu":
        mixed, total = _aten._scaled_dot_product_flash_attention_for_cpu(
            query, keys, values, 0.0, causal, attn_mask=mask, scale=scale
        )
        return mixed, total
    scores = _scores(query, keys, mask, scale, causal)
    total = torch.logsumexp(scores, dim=-1)
    return _weights(scores, total, values) @ values, total


def attention_backward(
    gradient: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
    causal: bool = False,
) -> Triple:
    """Gradients of query, key and value, given the gradient of the output."""
    fused = kernel(query, key, value, bias, causal)
    whole = mixed, total
    if fused == "flash":
        unused = torch.empty(2, dtype=torch.uint64, device=query.device)
        sizes = query.shape[2], key.shape[2]
        triple: Triple = _aten._scaled_dot_product_flash_attention_backward(
            gradient, query, key, value, *whole, None, None, *sizes, 0.0, causal, unused, unused,
            scale=scale,
        )  # fmt: skip
        return triple
    keys, values = (_for_every_head(tensor, query) for tensor in (key, value))
    mask = _bias_of_heads(bias, query)
    if fused == "efficient":
        unused = torch.empty((), dtype=torch.int64, device=query.device)
        missing = -query.shape[2] % _PADDED
        total = torch.nn.functional.pad(total, (0, missing), value=torch.inf)
        triple = _aten._scaled_dot_product_efficient_attention_backward(
            gradient, query, keys, values, mask, mixed, total, unused, unused, 0.0,
            [True, True, True, False], causal, scale=scale,
        )[:3]  # fmt: skip
    elif fused == "cpu":
        triple = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, keys, values, *whole, 0.0, causal, attn_mask=mask, scale=scale
        )
    else:
        weights = _weights(_scores(query, keys, mask, scale, causal), total, values)
        common = (gradient.float() * mixed.float()).sum(-1, keepdim=True)
        towards = (weights * ((gradient @ values.mT).float() - common) * scale).to(values.dtype)
        triple = towards @ keys, towards.mT @ query, weights.mT @ gradient
    return triple[0], _of_shared_heads(triple[1], key), _of_shared_heads(triple[2], value)


def kernel(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    causal: bool,
) -> Literal["flash", "efficient", "cpu"] | None:
    """The fused kernel for these tensors; None for the unfused fallback."""
    if query.device.type == "cpu":
        return "cpu"
    if not query.is_cuda or query.shape[-1] % 8:
        return None
    if bias is not None:
        return "efficient" if bias.shape[-1] % 8 == 0 and query.dtype == bias.dtype else None
    asked = torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, causal, True)
    if torch.backends.cuda.can_use_flash_attention(asked):
        return "flash"
    return "efficient" if torch.backends.cuda.can_use_efficient_attention(asked) else None


def _for_every_head(key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values repeated for every query head (repeat_kv)."""
    each = query.shape[1] // key.shape[1]
    return key if each == 1 else key.repeat_interleave(each, dim=1)


def _of_shared_heads(gradient: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Gradients of keys or values, summed over the query heads of a KV group."""
    if gradient.shape == key.shape:
        return gradient
    rows, heads = key.shape[:2]
    return gradient.reshape(rows, heads, -1, *key.shape[2:]).sum(2)


def _bias_of_heads(bias: torch.Tensor | None, query: torch.Tensor) -> torch.Tensor | None:
    """The bias expanded over heads, without a copy."""
    return None if bias is None else bias[:, None].expand(-1, query.shape[1], -1, -1)


def _scores(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scale: float, causal: bool
) -> torch.Tensor:
    """Attention scores in float32, as in the fused kernels."""
    scores = query.float() @ key.float().mT * scale
    if causal:
        places = torch.arange(scores.shape[-1], device=scores.device)
        return scores.masked_fill(places[:, None] < places, -torch.inf)
    return scores if mask is None else scores + mask


def _weights(scores: torch.Tensor, total: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.exp(scores - total[..., None]).to(like.dtype)
