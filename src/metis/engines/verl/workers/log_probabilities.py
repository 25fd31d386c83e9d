"""Log-probabilities of packed rows without flash-attn's cross-entropy kernel.

verl 0.9.1's fallback loops over rows; with packing each token is a row, so that it launches
thousands of small kernels, in the dtype of the logits. This replacement works on many rows at a
time in float32, and saves only the logits and one number per row for the backward pass.
"""

from typing import Any

import torch
from verl.utils import torch_functional

ROWS = 1024
"""Rows at a time, to not copy all logits to float32."""


def patch_verl() -> None:
    """Replace verl's fallback function."""
    torch_functional.logprobs_from_logits_v2 = log_probabilities


def log_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Log-softmax over the last dimension, at the labels."""
    rows = logits.reshape(-1, logits.shape[-1])
    logprobs: torch.Tensor = _OfLabels.apply(rows, labels.reshape(-1, 1))  # type: ignore[no-untyped-call]
    return logprobs.view(labels.shape)


class _OfLabels(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        parts = [_wide(part).logsumexp(-1, keepdim=True) for part in torch.split(logits, ROWS)]
        log_sum_exp = torch.cat(parts)
        context.save_for_backward(logits, labels, log_sum_exp)
        return _wide(logits.gather(-1, labels)) - log_sum_exp

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Incoming gradient times (one-hot(label) - softmax)."""
        logits, labels, log_sum_exp = context.saved_tensors
        logit_gradients = torch.empty_like(logits)
        columns = (logit_gradients, logits, labels, log_sum_exp, gradients[0])
        for target, part, label, total, gradient in zip(
            *(torch.split(column, ROWS) for column in columns), strict=True
        ):
            shares = (_wide(part) - total).exp_().neg_()
            shares.scatter_(-1, label, shares.gather(-1, label) + 1)
            target.copy_(shares.mul_(gradient))
        return logit_gradients, None


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
