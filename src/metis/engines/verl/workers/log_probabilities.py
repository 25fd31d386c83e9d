"""Log-probabilities of packed rows where flash-attn's kernel for them is missing.

verl 0.9.1 then goes through the rows of a padded batch one by one. Packed, each token is a row: on
a GPU thousands of small kernels in place of a few, and in the precision of the logits. This module
is in its place: many rows at a time, float32, and nothing kept for the backward pass but the
logits, which are there anyway, and a number a row.
"""

from typing import Any

import torch
from verl.utils import torch_functional

ROWS = 1024
"""At a time, so that no second copy of all logits is made in float32."""


def install() -> None:
    """verl calls this one where it has no kernel, or is told not to use it."""
    torch_functional.logprobs_from_logits_v2 = log_probabilities


def log_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of each label, under the softmax over the last dimension."""
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
        """The incoming gradient times one-hot(label) - softmax."""
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
