"""Log-probabilities of chosen tokens from last hidden states, without holding all logits.

Logits are computed for a chunk of positions at a time, and again in the backward pass: where there
are several chunks, only the hidden states are kept in between.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from metis.engines.local.model.compiling import compiled
from metis.engines.tokens.packing import Integers

LOGIT_CHUNK = 1 << 27
"""Logits held at once, in float32 and in the dtype of matrix products."""


class Head(NamedTuple):
    """A linear map from hidden states to logits, which `scale` multiplies."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None
    scale: float = 1.0
    dtype: torch.dtype = torch.float32
    """The dtype of matrix products; softmax and sums are at least float32."""
    compiled: bool = False
    """The softmax over the logits, and its gradient, are compiled."""

    @classmethod
    def of(
        cls, module: torch.nn.Module, scale: float, dtype: torch.dtype, compiled: bool = False
    ) -> "Head":
        """The head of a module that is affine; adapters on it are added to its weight."""
        if type(module) is torch.nn.Linear:
            return cls(module.weight, module.bias, scale, dtype, compiled)
        weight = next(weight for weight in module.parameters() if weight.ndim == 2)
        size = weight.shape[1]
        images = module(torch.cat([weight.new_zeros(1, size), torch.eye(size).to(weight)]))
        return cls((images[1:] - images[0]).T, images[0], scale, dtype, compiled)

    def cast(self) -> "Head":
        """The head with its weight in the dtype of matrix products."""
        bias = None if self.bias is None else self.bias.to(self.dtype)
        return self._replace(weight=self.weight.to(self.dtype), bias=bias)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = linear(hidden.to(self.dtype), self.weight, self.bias)
        return logits if self.scale == 1 else logits.to(_precise(self.dtype)).mul_(self.scale)


class Chunk(NamedTuple):
    """Successive positions, and the tokens chosen there as (position, token)."""

    positions: slice
    chosen: slice
    places: tuple[torch.Tensor, torch.Tensor]


def chosen_logprobs(
    head: Head, hidden: torch.Tensor, positions: Integers, tokens: Integers
) -> torch.Tensor:
    """The log-probability of each token at its position, a row of `hidden`."""
    return _chosen(head, hidden, positions, tokens, False)[0]


def chosen_logprobs_and_entropies(
    head: Head, hidden: torch.Tensor, positions: Integers, tokens: Integers
) -> tuple[torch.Tensor, torch.Tensor]:
    """Like `chosen_logprobs`, with the entropy at each row of `hidden`, which has no gradient."""
    return _chosen(head, hidden, positions, tokens, True)


def _chosen(
    head: Head, hidden: torch.Tensor, positions: Integers, tokens: Integers, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    order = np.argsort(positions, kind="stable")
    chunks = _chunks(head, hidden, positions[order], tokens[order])
    logprobs, entropies = _Chosen.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, head, chunks, entropy
    )
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(hidden.device)
    return logprobs[back], entropies


def _chunks(head: Head, hidden: torch.Tensor, positions: Integers, tokens: Integers) -> list[Chunk]:
    size = max(1, LOGIT_CHUNK // len(head.weight))
    starts = list(range(0, len(hidden), size))
    cuts = np.searchsorted(positions, [*starts, len(hidden)]).tolist()
    rows, columns = (torch.from_numpy(each).to(hidden.device) for each in (positions, tokens))
    chunks = []
    for start, first, last in zip(starts, cuts, cuts[1:], strict=False):
        chosen = slice(first, last)
        places = rows[chosen] - start, columns[chosen]
        chunks.append(Chunk(slice(start, start + size), chosen, places))
    return chunks


class _Chosen(torch.autograd.Function):
    """Log-probabilities of chosen tokens; entropies of positions, none unless asked for."""

    @staticmethod
    def forward(
        context: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        head: Head,
        chunks: Sequence[Chunk],
        entropy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        context.head, context.chunks = head, chunks
        head = head._replace(weight=weight, bias=bias).cast()
        read = compiled(_values) if head.compiled else _values
        values = []
        for chunk in chunks:
            logits = head.logits(hidden[chunk.positions])
            values.append(read(logits, *chunk.places, entropy))
        context.save_for_backward(hidden, weight, bias, logits if len(chunks) == 1 else None)
        logprobs, entropies = (torch.cat(parts) for parts in zip(*values, strict=True))
        context.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, bias, logits = context.saved_tensors
        head = context.head._replace(weight=weight, bias=bias).cast()
        of_logprobs = head.scale * gradients[0]
        write: Callable[..., torch.Tensor] = compiled(_of_logits) if head.compiled else _of_logits
        of_hidden, of_weight, of_bias = (
            torch.zeros_like(tensor) if needed else None
            for tensor, needed in zip(
                (hidden, weight, bias), context.needs_input_grad, strict=False
            )
        )
        for chunk in context.chunks:
            states = hidden[chunk.positions]
            made = head.logits(states) if logits is None else logits
            gradient = write(made, *chunk.places, of_logprobs[chunk.chosen], head.dtype)
            del made
            if of_hidden is not None:
                of_hidden[chunk.positions] = gradient @ head.weight
            if of_weight is not None:
                of_weight += gradient.T @ states.to(head.dtype)
            if of_bias is not None:
                of_bias += gradient.sum(0)
            del gradient  # before the next logits are made
        return of_hidden, of_weight, of_bias, None, None, None


def _values(
    logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of tokens in rows of logits, and entropies of all rows if asked for."""
    whole = torch.log_softmax(logits, 1, _precise(logits.dtype))
    entropies = -(whole.exp() * whole).sum(1) if entropy else whole.new_empty(0)
    return whole[rows, tokens], entropies


def _of_logits(
    logits: torch.Tensor,
    rows: torch.Tensor,
    tokens: torch.Tensor,
    of_logprobs: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The gradient with respect to the logits, from that of the log-probabilities."""
    precise = of_logprobs.dtype
    sums = of_logprobs.new_zeros(len(logits)).index_add_(0, rows, of_logprobs)[:, None]
    gradient = torch.softmax(logits, 1, precise).mul_(-sums)
    return gradient.index_put_((rows, tokens), of_logprobs, accumulate=True).to(dtype)


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
