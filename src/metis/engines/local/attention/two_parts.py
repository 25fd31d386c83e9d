"""Attention over a shared prefix and each row's own keys, merged by log-sum-exp (cascade).

The outputs over both sets of keys are weighted by the softmax of their log-sum-exps (online
softmax), so the prefix is not copied per row and no attention matrix is materialised. Tensors are
rows x heads x tokens x head_dim, with grouped-query attention; the prefix is heads x tokens x
head_dim, the bias rows x tokens x keys.
"""

import torch

from metis.engines.local.attention import log_sum_exp

Pair = tuple[torch.Tensor, torch.Tensor]
Five = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def prefix_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
    scale: float,
) -> Pair:
    """Attention over the prefix's keys and, with a bias, the row's own; returns output and LSE."""
    flat, shared_total = log_sum_exp.attention_with_lse(
        _one_row(query), shared_key[None], shared_value[None], None, scale
    )
    shared, shared_total = _rows(flat, query), _rows(shared_total[..., None], query)[..., 0]
    own, own_total = log_sum_exp.attention_with_lse(query, key, value, bias, scale)
    share = torch.sigmoid(shared_total - own_total)
    mixed = torch.lerp(own, shared, share.to(own.dtype)[..., None])
    return mixed, torch.logaddexp(shared_total, own_total)


def prefix_attention_backward(
    gradient: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
    scale: float,
) -> Five:
    """Gradients of queries, own keys and values, and the prefix's keys and values."""
    own = log_sum_exp.attention_backward(gradient, mixed, total, query, key, value, bias, scale)
    shared = log_sum_exp.attention_backward(
        _one_row(gradient),
        _one_row(mixed),
        _one_row(total[..., None])[..., 0].contiguous(),
        _one_row(query),
        shared_key[None],
        shared_value[None],
        None,
        scale,
    )
    return own[0] + _rows(shared[0], query), own[1], own[2], shared[1][0], shared[2][0]


def _one_row(tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate the tokens of all rows into one row."""
    return tensor.transpose(1, 2).flatten(0, 1).transpose(0, 1)[None]


def _rows(long: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Inverse of `_one_row`."""
    rows, heads, tokens, _ = like.shape
    return long[0].transpose(0, 1).reshape(rows, tokens, heads, -1).transpose(1, 2)
