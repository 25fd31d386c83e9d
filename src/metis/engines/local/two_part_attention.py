"""Attention over two sets of keys, what all rows share and what each has alone, in one softmax.

Each part gives its mixture and the logarithm of its normaliser; these say how much either part
counts in the whole. So no keys are copied for the rows, and kernels need not write weights down.

Tensors are of rows x heads x tokens x size; several heads of the queries may share a key's.
"""

from typing import Any

import torch

from metis.engines.local import normalised_attention

Pair = tuple[torch.Tensor, torch.Tensor]
Five = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def two_part_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Queries over the shared keys, and over those of their row under a bias.

    What is shared is of heads x tokens x size, the bias of rows x tokens x keys.
    """
    mixed: torch.Tensor = _forward(query, key, value, bias, shared_key, shared_value, scale)[0]
    return mixed


# Operators of their own, which torch.compile takes as they are: it would write the weights down.


@torch.library.custom_op("metis::two_part_attention", mutates_args=())
def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
    scale: float,
) -> Pair:
    """What was mixed, and the logarithm of the normaliser."""
    flat, shared_total = normalised_attention.attend(
        _one_row(query), shared_key[None], shared_value[None], None, scale
    )
    shared, shared_total = _rows(flat, query), _rows(shared_total[..., None], query)[..., 0]
    own, own_total = normalised_attention.attend(query, key, value, bias, scale)
    share = torch.sigmoid(shared_total - own_total)
    mixed = torch.lerp(own, shared, share.to(own.dtype)[..., None])
    return _by_token(mixed), torch.logaddexp(shared_total, own_total).contiguous()


@torch.library.custom_op("metis::two_part_attention_backward", mutates_args=())
def _backward(
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
    """The gradients of queries, keys, values, and of the shared keys and values."""
    gradient = _by_token(gradient)
    own = normalised_attention.gradients(gradient, mixed, total, query, key, value, bias, scale)
    shared = normalised_attention.gradients(
        _one_row(gradient),
        _one_row(mixed),
        _one_row(total[..., None])[..., 0].contiguous(),
        _one_row(query),
        shared_key[None],
        shared_value[None],
        None,
        scale,
    )
    return (
        _by_token(own[0] + _rows(shared[0], query)),
        _by_token(own[1]),
        _by_token(own[2]),
        shared[1][0].contiguous(),
        shared[2][0].contiguous(),
    )


def _one_row(tensor: torch.Tensor) -> torch.Tensor:
    """The tokens of all rows as those of one."""
    return tensor.transpose(1, 2).flatten(0, 1).transpose(0, 1)[None]


def _rows(long: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tokens of one long row back in their rows."""
    rows, heads, tokens, _ = like.shape
    return long[0].transpose(0, 1).reshape(rows, tokens, heads, -1).transpose(1, 2)


def _by_token(tensor: torch.Tensor) -> torch.Tensor:
    """Laid out as a network has it: the heads of a token side by side."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


@_forward.register_fake
def _(query: torch.Tensor, *_: Any) -> Pair:
    return _like(query), query.new_empty(query.shape[:-1], dtype=torch.float32)


@_backward.register_fake
def _(*given: Any) -> Five:
    query, key, value, _, shared_key, shared_value, _ = given[3:]
    shared = [tensor.new_empty(tensor.shape) for tensor in (shared_key, shared_value)]
    return _like(query), _like(key), _like(value), shared[0], shared[1]


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_empty(tensor.transpose(1, 2).shape).transpose(1, 2)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*output, *tensors)


def _gradients(
    context: Any, gradient: torch.Tensor, _: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    query, key, value, *shared = _backward(gradient, *context.saved_tensors, context.scale)
    return query, key, value, None, *shared, None


_forward.register_autograd(_gradients, setup_context=_remember)
