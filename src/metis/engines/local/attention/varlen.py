"""Causal attention over packed sequences without padding (FlashAttention's varlen kernel).

Tensors are tokens x heads x head_dim, with grouped-query attention; log-sum-exps are heads x
tokens.
"""

import functools
from collections.abc import Sequence

import torch

from metis.engines.local.attention import log_sum_exp

Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_aten = torch.ops.aten


def works(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """True if the kernel takes such tensors: on a GPU, in half precision."""
    if not query.is_cuda:
        return False
    queries, keys, values = (tensor.transpose(0, 1)[None] for tensor in (query, key, value))
    fused = log_sum_exp.kernel(queries, keys, values, None, causal=True)
    return fused == "flash" and _without_padding(query.device)


def works_on(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """`works`, for heads of a size."""
    if device.type != "cuda":
        return False
    some = torch.empty(8, 1, size, dtype=dtype, device=device)
    return works(some, some, some)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: Sequence[int],
    scale: float,
) -> Pair:
    """Returns the attention output and the log-sum-exp of the scores."""
    starts, longest = _starts(lengths, query.device), max(lengths)
    mixed, total, *_ = _aten._flash_attention_forward(
        query, key, value, starts, starts, longest, longest, 0.0, True, False, scale=scale
    )
    return mixed, total


def attention_backward(
    gradient: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: Sequence[int],
    scale: float,
) -> Triple:
    """Gradients of query, key and value, given the gradient of the output."""
    starts, longest = _starts(lengths, query.device), max(lengths)
    unused = torch.zeros(2, dtype=torch.uint64, device=query.device)
    triple: Triple = _aten._flash_attention_backward(
        gradient, query, key, value, mixed, total, starts, starts, longest, longest, 0.0, True,
        unused, torch.empty(0, device=query.device), scale=scale,
    )  # fmt: skip
    return triple


@functools.cache
def _without_padding(device: torch.device) -> bool:
    """True if this torch's kernel returns log-sum-exps without padding; older ones pad each row."""
    some = torch.zeros(8, 1, 64, dtype=torch.float16, device=device)
    try:
        return attention(some, some, some, [3, 5], 1.0)[1].shape == (1, 8)
    except RuntimeError:
        return False


def _starts(lengths: Sequence[int], device: torch.device) -> torch.Tensor:
    """Cumulative lengths (`cu_seqlens`): the start of each sequence, and the end of the last."""
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    return ends.to(device, non_blocking=True)
