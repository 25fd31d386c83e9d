"""Attention over two sets of keys, what all rows share and what each has alone, in one softmax.

Each part gives its mixture and the logarithm of its normaliser; these say how much either part
counts in the whole. Backwards each part only needs the mixture and normaliser of the whole, as if
it were the whole. So the shared part, the large one, can leave its weights to a kernel that never
writes them down.

Tensors are of groups x rows x tokens x size. Heads whose queries share keys and values are a group,
and their queries stand one head after the other where the tokens would.
"""

from typing import Any

import torch

Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Five = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]

_aten = torch.ops.aten


def two_part_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
) -> torch.Tensor:
    """Queries, already scaled, over the shared keys and over those of their row which they see.

    What is shared is of groups x tokens x size, what is seen of rows x tokens x keys: the same for
    all queries of a token.
    """
    mixed: torch.Tensor = _forward(query, key, value, sees, shared_key, shared_value)[0]
    return mixed


# Operators of their own, which torch.compile takes as they are: it would write the weights down.


@torch.library.custom_op("metis::two_part_attention", mutates_args=())
def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
) -> Pair:
    """What was mixed, and the logarithm of the normaliser."""
    shared, shared_total = _shared(query, shared_key, shared_value)
    own, own_total = _own(query, key, value, sees)
    total = torch.logaddexp(shared_total, own_total).contiguous()
    mixed = shared * _share(shared_total, total) + own * _share(own_total, total)
    return mixed.to(query.dtype).contiguous(), total


@torch.library.custom_op("metis::two_part_attention_backward", mutates_args=())
def _backward(
    gradient: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
) -> Five:
    """The gradients of queries, keys, values, and of the shared keys and values."""
    whole = (query, mixed, total, gradient.contiguous())
    shared = _shared_backward(*whole, shared_key, shared_value)
    own = _own_backward(*whole, key, value, sees)
    gradients = (shared[0] + own[0], own[1], own[2], shared[1], shared[2])
    first, second, third, fourth, fifth = (tensor.contiguous() for tensor in gradients)
    return first, second, third, fourth, fifth


@_forward.register_fake
def _(query: torch.Tensor, *_: torch.Tensor) -> Pair:
    return _like(query), query.new_empty(query.shape[:-1], dtype=torch.float32)


@_backward.register_fake
def _(*tensors: torch.Tensor) -> Five:
    query, key, value, _, shared_key, shared_value = tensors[3:]
    return _like(query), _like(key), _like(value), _like(shared_key), _like(shared_value)


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _remember(ctx: Any, inputs: tuple[torch.Tensor, ...], output: Pair) -> None:
    ctx.save_for_backward(*output, *inputs)


def _gradients(
    context: Any, gradient: torch.Tensor, _: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    query, key, value, *shared = _backward(gradient, *context.saved_tensors)
    return query, key, value, None, *shared


_forward.register_autograd(_gradients, setup_context=_remember)


def _share(part: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    return torch.exp(part - total)[..., None]


# Their own row: few keys, every weight written down


def _own(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sees: torch.Tensor | None
) -> Pair:
    scores = _scores(query, key, sees)
    total = torch.logsumexp(scores, dim=-1)
    return _weights(scores, total, value) @ value, total


def _own_backward(
    query: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    gradient: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor | None,
) -> Triple:
    weights = _weights(_scores(query, key, sees), total, value)
    common = (gradient.float() * mixed.float()).sum(-1, keepdim=True)
    towards = (weights * ((gradient @ value.mT).float() - common)).to(value.dtype)
    return towards @ key, towards.mT @ query, weights.mT @ gradient


def _scores(query: torch.Tensor, key: torch.Tensor, sees: torch.Tensor | None) -> torch.Tensor:
    """Never rounded: the other part's are not either."""
    scores = query.float() @ key.float().mT
    if sees is None:
        return scores
    each = scores.reshape(*scores.shape[:2], -1, *sees.shape[1:])
    return each.masked_fill(~sees[:, None], float("-inf")).view(scores.shape)


def _weights(scores: torch.Tensor, total: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.exp(scores - total[..., None]).to(like.dtype)


# What all rows share: their tokens are queries of one long row


def _shared(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Pair:
    flat = query.flatten(1, 2)
    tensors = [tensor[None] for tensor in (flat, key, value)]
    match _kernel(*tensors):
        case "cpu":
            mixed, total = _aten._scaled_dot_product_flash_attention_for_cpu(*tensors, scale=1.0)
        case "cuda":
            mixed, total, *_ = _aten._scaled_dot_product_flash_attention(*tensors, scale=1.0)
        case _:
            mixed, total = _own(flat, key, value, None)
    return mixed.reshape(query.shape), total.reshape(query.shape[:-1])


def _shared_backward(
    query: torch.Tensor,
    mixed: torch.Tensor,
    total: torch.Tensor,
    gradient: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
) -> Triple:
    flat, mixed, total, gradient = (t.flatten(1, 2) for t in (query, mixed, total, gradient))
    tensors = [tensor[None] for tensor in (gradient, flat, key, value, mixed, total)]
    match _kernel(*tensors[1:4]):
        case "cpu":
            found = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
                *tensors, 0.0, False, scale=1.0
            )
        case "cuda":
            undropped = torch.empty(2, dtype=torch.uint64, device=query.device)
            sizes = flat.shape[1], key.shape[1]
            found = _aten._scaled_dot_product_flash_attention_backward(
                *tensors, None, None, *sizes, 0.0, False, undropped, undropped, scale=1.0
            )
        case _:
            found = _own_backward(flat, mixed, total, gradient, key, value, None)
    return found[0].reshape(query.shape), found[1].view_as(key), found[2].view_as(value)


def _kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> str | None:
    """The kind of flash attention there is for these tensors."""
    if query.is_cuda:
        asked = torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, False, False)
        return "cuda" if torch.backends.cuda.can_use_flash_attention(asked) else None
    return "cpu" if query.device.type == "cpu" else None
