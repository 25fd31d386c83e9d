"""Prefill: the prompts' KV cache, before sampling.

The common prefix of all prompts is computed once. The rest of each prompt follows on its KV cache,
batched by length to save padding; then all are concatenated into one left-padded batch. With
sliding-window layers, where padding counts in the window, whole prompts are left-padded instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from metis.engines.local.model.forward import expanded, new_cache, prefix_cache
from metis.engines.local.model.policy import Policy
from metis.engines.tokens.packing import common_prefix

SPARE = {"cpu": 64}
"""Padding tokens that cost less than another forward pass; on a GPU, many."""


@dataclass
class Prefilled:
    """A batch ready for decoding: attention mask, KV cache, and next-token logits."""

    mask: torch.Tensor
    cache: Any
    logits: torch.Tensor


def prefill(policy: Policy, prompts: Sequence[list[int]]) -> Prefilled:
    """Prefill every prompt, one row each."""
    shared, groups = 0, [list(range(len(prompts)))]
    if not policy.windowed:
        shared = min(common_prefix(prompts), min(map(len, prompts)) - 1)
        spare = SPARE.get(policy.device.type, 1 << 14)
        groups = list(_of_like_length([len(prompt) - shared for prompt in prompts], spare))
    rests = [prompt[shared:] for prompt in prompts]
    with policy.autocast():
        start = prefix_cache(policy, prompts[0][:shared], 1) if shared else None
        parts = [
            _pass(policy, start, shared, [rests[place] for place in group]) for group in groups
        ]
    policy.processed += sum(map(len, rests))
    whole = _side_by_side(parts, shared) if len(parts) > 1 else parts[0]
    order = [place for group in groups for place in group]
    if order != sorted(order):
        rows = torch.argsort(torch.tensor(order, device=policy.device))
        whole.cache.batch_select_indices(rows)
        whole = Prefilled(whole.mask[rows], whole.cache, whole.logits[rows])
    return whole


def _of_like_length(lengths: Sequence[int], spare: int) -> Iterator[list[int]]:
    """Group indices by length, so that padding is at most an eighth of the tokens, or `spare`."""
    group: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        length = lengths[place]
        padding = length * len(group) - tokens
        if group and padding > max(spare, tokens // 8):
            yield group
            group, tokens = [], 0
        group.append(place)
        tokens += length
    yield group


def _pass(policy: Policy, start: Any, shared: int, rests: Sequence[list[int]]) -> Prefilled:
    width = max(map(len, rests))
    tokens = torch.zeros(len(rests), width, dtype=torch.long)
    mask = torch.zeros(len(rests), shared + width, dtype=torch.long)
    mask[:, :shared] = 1
    for row, rest in enumerate(rests):
        tokens[row, width - len(rest) :] = torch.tensor(rest)
        mask[row, shared + width - len(rest) :] = 1
    mask = mask.to(policy.device)
    cache = expanded(start, len(rests)) if shared else new_cache(policy)
    hidden = policy.states(
        input_ids=tokens.to(policy.device),
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0)[:, shared:],
        past_key_values=cache,
    )[:, -1]
    return Prefilled(mask, cache, policy.head(hidden))


def _side_by_side(parts: Sequence[Prefilled], shared: int) -> Prefilled:
    """Concatenate batches; shorter rows are padded between the shared prefix and the rest."""
    width = max(part.mask.shape[1] for part in parts)

    def widened(values: torch.Tensor, axis: int) -> torch.Tensor:
        size = values.shape[axis]
        first, rest = values.narrow(axis, 0, shared), values.narrow(axis, shared, size - shared)
        shape = list(values.shape)
        shape[axis] = width - size
        return torch.cat([first, values.new_zeros(shape), rest], dim=axis)

    cache = parts[0].cache
    for number, layer in enumerate(cache.layers):
        layers = [part.cache.layers[number] for part in parts]
        layer.keys = torch.cat([widened(each.keys, 2) for each in layers])
        layer.values = torch.cat([widened(each.values, 2) for each in layers])
    return Prefilled(
        torch.cat([widened(part.mask, 1) for part in parts]),
        cache,
        torch.cat([part.logits for part in parts]),
    )
