"""The forward pass: token log-probabilities, with shared prefixes computed once.

The prefix of a group is computed once, all rows share its KV cache, and gradients flow through it.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from metis.engines.local.attention import blocks
from metis.engines.local.attention.blocks import Segment
from metis.engines.local.model.head import Head, chosen_logprobs, chosen_logprobs_and_entropies
from metis.engines.local.model.policy import LAUNCH_BOUND, Policy
from metis.engines.tokens.packing import (
    Integers,
    Layout,
    PaddedBatch,
    PrefixGroup,
    Row,
    sequence_row,
)

ALIKE = 0.1
"""Mean difference of log-probabilities up to which two passes are taken for alike in bfloat16."""


def token_logprobs(policy: Policy, group: PrefixGroup, temperature: float = 1.0) -> torch.Tensor:
    """The log-probabilities of all targets of a prefix group, as one vector in row order."""
    [logprobs] = joint_logprobs(policy, [group], [temperature])
    return logprobs


def joint_logprobs(
    policy: Policy, groups: Sequence[PrefixGroup], temperatures: Sequence[float]
) -> list[torch.Tensor]:
    """Like `token_logprobs`, for several groups in one pass, which must all be `joinable`."""
    given = _targets(policy, groups, temperatures)
    return [chosen_logprobs(*each) for each in given]


def joint_logprobs_and_entropies(
    policy: Policy, groups: Sequence[PrefixGroup], temperatures: Sequence[float]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Like `joint_logprobs`, each with the entropies before the targets, which have no gradient."""
    given = _targets(policy, groups, temperatures)
    return [chosen_logprobs_and_entropies(*each) for each in given]


def _targets(
    policy: Policy, groups: Sequence[PrefixGroup], temperatures: Sequence[float]
) -> Iterator[tuple[Head, torch.Tensor, Integers, Integers]]:
    """The head, the hidden states, and which of these precedes each target, per group.

    Each position goes through the LM head once.
    """
    with policy.autocast():
        if _packed(policy, groups):
            hidden = _in_one_sequence(policy, groups)
        else:
            hidden = [_side_by_side(policy, groups[0])]
    policy.processed += sum(len(row.tokens) for group in groups for row in group.rows)
    for group, states, temperature in zip(groups, hidden, temperatures, strict=True):
        unique, which = np.unique(_places(group.batches), return_inverse=True)
        wanted = np.concatenate([row.wanted for row in group.rows])
        yield policy.head_at(temperature), states[_tensor(unique, states.device)], which, wanted


@torch.no_grad()
def packs_alike(policy: Policy) -> bool:
    """True if packed rows have the log-probabilities of each row alone.

    Not so where a model ignores position ids, or has states that run on into the next row.
    """
    rows = [_some_row(5), _some_row(9)]
    before, policy.compiled = (policy.processed, policy.compiled), False
    with torch.compiler.set_stance("force_eager"):
        alone = [token_logprobs(policy, PrefixGroup([], [row])) for row in rows]
        packed = token_logprobs(policy, PrefixGroup([], rows, Layout(packed=True)))
    policy.processed, policy.compiled = before
    return float((torch.cat(alone) - packed).abs().mean()) < ALIKE


def _some_row(length: int) -> Row:
    tokens = np.arange(length, dtype=np.int64)
    return sequence_row(tokens, np.ones(length, dtype=np.bool_), 0)


def _places(batches: Sequence[PaddedBatch]) -> Integers:
    """Indices of the tokens before each target, in the concatenated padded batches."""
    starts = np.cumsum([0, *(batch.width for batch in batches for _ in batch.rows)])
    rows = [row for batch in batches for row in batch.rows]
    return np.concatenate(
        [row.positions + start for row, start in zip(rows, starts[:-1], strict=True)]
    )


def joinable(policy: Policy, group: PrefixGroup) -> bool:
    """True if a group can be packed: plain rows without prefix, or token trees on a prefix."""
    return policy.plain and group.trees == bool(group.prefix)


def _packed(policy: Policy, groups: Sequence[PrefixGroup]) -> bool:
    first = groups[0]
    return joinable(policy, first) and (len(groups) > 1 or first.trees or first.packed)


def has_cache(policy: Policy, groups: Sequence[PrefixGroup]) -> bool:
    """True if a pass keeps the prefix in a KV cache, which gradient checkpointing excludes."""
    return bool(groups[0].prefix) and not _packed(policy, groups)


@torch.no_grad()
def no_grad_logprobs(policy: Policy, group: PrefixGroup, budget: int) -> NDArray[np.float32]:
    """Like `token_logprobs`, without gradients, in micro-batches of at most `budget` tokens."""
    parts = [token_logprobs(policy, part) for part in group.split(budget)]
    values: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
    return values


def _side_by_side(policy: Policy, group: PrefixGroup) -> torch.Tensor:
    """Last hidden states of a padded batch; plain rows are right-padded and need no mask."""
    prefix, [batch] = group.prefix, group.batches
    arguments: dict[str, Any] = {"input_ids": _tensor(batch.tokens, policy.device)}
    if group.trees:
        sees = batch.sees
        mask = np.concatenate([np.ones((*sees.shape[:2], len(prefix)), np.bool_), sees], axis=2)
        arguments["attention_mask"] = _tensor(mask[:, None], policy.device)
        arguments["position_ids"] = _tensor(len(prefix) + batch.depths, policy.device)
    cache = prefix_cache(policy, prefix, len(batch.rows)) if prefix else None
    return policy.states(**arguments, past_key_values=cache).flatten(0, 1)


def _in_one_sequence(policy: Policy, groups: Sequence[PrefixGroup]) -> list[torch.Tensor]:
    """Last hidden states of packed groups (prefixes and rows in one sequence), per group."""
    tokens, positions = [], []
    biases = [torch.empty(0, dtype=policy.dtype, device=policy.device)]
    segments: list[Segment] = []
    start = 0
    for group in groups:
        before = len(group.prefix)
        if before:
            tokens.append(np.asarray(group.prefix, dtype=np.int64))
            positions.append(np.arange(before))
            segments.append(Segment(1, before))
        for batch in group.batches:
            tokens.append(batch.tokens.ravel())
            positions.append(before + batch.depths.ravel())
            if group.trees:
                biases.append(_bias(policy, batch).flatten())
            segments.append(Segment(len(batch.rows), batch.width, start, before))
        start += group.size
        policy.processed += before

    def states(
        ids: torch.Tensor, places: torch.Tensor, bias: torch.Tensor, table: torch.Tensor
    ) -> torch.Tensor:
        given = {"input_ids": ids, "position_ids": places}
        with policy.attention(blocks.NAME):
            return policy.states(**given, segments=table, bias=bias)

    arrays = np.concatenate(tokens)[None], np.concatenate(positions)[None]
    inputs = [*(_tensor(array, policy.device) for array in arrays), torch.cat(biases)]
    inputs.append(blocks.segment_table(segments))
    brief = arrays[0].size * policy.weights <= LAUNCH_BOUND
    if brief and not torch.is_grad_enabled() and all(group.trees for group in groups):
        hidden = policy.recorder.run(tuple(segments), states, inputs)
    else:
        hidden = states(*inputs)
    parts = torch.split(hidden[0], [group.size for group in groups])
    return [part[len(group.prefix) :] for part, group in zip(parts, groups, strict=True)]


def _bias(policy: Policy, batch: PaddedBatch) -> torch.Tensor:
    """The additive attention mask of token trees."""
    unseen = _tensor(~batch.sees, policy.device)
    bias = torch.zeros(unseen.shape, dtype=policy.dtype, device=policy.device)
    return bias.masked_fill_(unseen, -torch.inf)


def new_cache(policy: Policy) -> Any:
    """An empty KV cache."""
    return DynamicCache(config=policy.base.config)


def prefix_cache(policy: Policy, prefix: list[int], copies: int) -> Any:
    """The KV cache of the prefix, computed once and expanded to every row."""
    cache = new_cache(policy)
    policy.states(input_ids=torch.tensor([prefix], device=policy.device), past_key_values=cache)
    policy.processed += len(prefix)
    return expanded(cache, copies)


def expanded(cache: Any, copies: int) -> Any:
    """The KV cache of one row expanded to many, without a copy."""
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in other.layers:
        layer.keys = layer.keys.expand(copies, -1, -1, -1)
        layer.values = layer.values.expand(copies, -1, -1, -1)
    return other


def _tensor(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values).to(device)
