"""The forward pass: log-probabilities of tokens, with shared prefixes computed once.

The prefix of a bundle passes through the network once, its KV cache serves all rows, and gradients
flow back through it.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from metis.engines.local.attention import blocks
from metis.engines.local.attention.blocks import Piece
from metis.engines.local.model.policy import BRIEF, LOGIT_CHUNK, Policy
from metis.engines.tokens.packing import Bundle, Integers, Strip


def token_logprobs(policy: Policy, bundle: Bundle, temperature: float = 1.0) -> torch.Tensor:
    """The log-probabilities of all targets of a bundle, row by row, as one vector."""
    [logprobs] = together(policy, [bundle], [temperature])
    return logprobs


def together(
    policy: Policy, bundles: Sequence[Bundle], temperatures: Sequence[float]
) -> list[torch.Tensor]:
    """The same of several bundles, in one pass; of several, each must be `joinable`."""
    joined = joinable(policy, bundles[0]) and (len(bundles) > 1 or bundles[0].trees)
    with policy.autocast():
        if joined:
            hidden = _in_one_sequence(policy, bundles)
        else:
            hidden = [_side_by_side(policy, bundles[0])]
    policy.processed += sum(len(row.tokens) for bundle in bundles for row in bundle.rows)
    logprobs = []
    for bundle, states, temperature in zip(bundles, hidden, temperatures, strict=True):
        places = _places(bundle.strips)
        wanted = np.concatenate([row.wanted for row in bundle.rows])
        logprobs.append(_head_logprobs(policy, states, places, wanted, temperature))
    return logprobs


def _places(strips: Sequence[Strip]) -> Integers:
    """The position of the token before each target, in strips one after the other."""
    starts = np.cumsum([0, *(strip.width for strip in strips for _ in strip.rows)])
    rows = [row for strip in strips for row in strip.rows]
    return np.concatenate(
        [row.positions + start for row, start in zip(rows, starts[:-1], strict=True)]
    )


def joinable(policy: Policy, bundle: Bundle) -> bool:
    """True if a bundle can share a pass: plain rows that stand alone, or trees on a prefix."""
    return policy.plain and bundle.trees == bool(bundle.prefix)


@torch.no_grad()
def scores(policy: Policy, bundle: Bundle, budget: int) -> NDArray[np.float32]:
    """The same without gradients, within a budget of tokens."""
    parts = [token_logprobs(policy, part) for part in bundle.split(budget)]
    values: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
    return values


def _side_by_side(policy: Policy, bundle: Bundle) -> torch.Tensor:
    """The last layer's states of all rows. Plain rows need no mask: causality is all there is."""
    prefix, [strip] = bundle.prefix, bundle.strips
    arguments: dict[str, Any] = {"input_ids": _tensor(strip.tokens, policy.device)}
    if bundle.trees:
        sees = strip.sees
        mask = np.concatenate([np.ones((*sees.shape[:2], len(prefix)), np.bool_), sees], axis=2)
        arguments["attention_mask"] = _tensor(mask[:, None], policy.device)
        arguments["position_ids"] = _tensor(len(prefix) + strip.depths, policy.device)
    cache = prefix_cache(policy, prefix, len(strip.rows)) if prefix else None
    return policy.states(**arguments, past_key_values=cache).flatten(0, 1)


def _in_one_sequence(policy: Policy, bundles: Sequence[Bundle]) -> list[torch.Tensor]:
    """Prefixes and rows of all bundles in one pass; what the rows leave, bundle by bundle."""
    tokens, positions = [], []
    biases = [torch.empty(0, dtype=policy.dtype, device=policy.device)]
    pieces: list[Piece] = []
    start = 0
    for bundle in bundles:
        before = len(bundle.prefix)
        if before:
            tokens.append(np.asarray(bundle.prefix, dtype=np.int64))
            positions.append(np.arange(before))
            pieces.append(Piece(1, before))
        for strip in bundle.strips:
            tokens.append(strip.tokens.ravel())
            positions.append(before + strip.depths.ravel())
            if bundle.trees:
                biases.append(_bias(policy, strip).flatten())
            pieces.append(Piece(len(strip.rows), strip.width, start, before))
        start += bundle.size
        policy.processed += before

    def states(
        ids: torch.Tensor, places: torch.Tensor, bias: torch.Tensor, table: torch.Tensor
    ) -> torch.Tensor:
        given = {"input_ids": ids, "position_ids": places}
        with policy.attention(blocks.NAME):
            return policy.states(**given, pieces=table, bias=bias)

    arrays = np.concatenate(tokens)[None], np.concatenate(positions)[None]
    inputs = [*(_tensor(array, policy.device) for array in arrays), torch.cat(biases)]
    inputs.append(blocks.table(pieces))
    brief = arrays[0].size * policy.weights <= BRIEF
    if brief and not torch.is_grad_enabled() and all(bundle.trees for bundle in bundles):
        hidden = policy.recorder.run(tuple(pieces), states, inputs)
    else:
        hidden = states(*inputs)
    parts = torch.split(hidden[0], [bundle.size for bundle in bundles])
    return [part[len(bundle.prefix) :] for part, bundle in zip(parts, bundles, strict=True)]


def _bias(policy: Policy, strip: Strip) -> torch.Tensor:
    """The attention bias, where tokens do not see all of their row."""
    unseen = _tensor(~strip.sees, policy.device)
    bias = torch.zeros(unseen.shape, dtype=policy.dtype, device=policy.device)
    return bias.masked_fill_(unseen, -torch.inf)


def new_cache(policy: Policy) -> Any:
    """An empty KV cache."""
    return DynamicCache(config=policy.base.config)


def prefix_cache(policy: Policy, prefix: list[int], copies: int) -> Any:
    """The KV cache of the prefix, computed once and seen by every row."""
    cache = new_cache(policy)
    policy.states(input_ids=torch.tensor([prefix], device=policy.device), past_key_values=cache)
    policy.processed += len(prefix)
    return expanded(cache, copies)


def expanded(cache: Any, copies: int) -> Any:
    """The KV cache of one row seen by many, not copied for them."""
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in other.layers:
        layer.keys = layer.keys.expand(copies, -1, -1, -1)
        layer.values = layer.values.expand(copies, -1, -1, -1)
    return other


def _head_logprobs(
    policy: Policy, hidden: torch.Tensor, places: Integers, wanted: Integers, temperature: float
) -> torch.Tensor:
    """Log-softmax at the wanted tokens; a place with several of them goes through the head once."""

    def some(states: torch.Tensor, which: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        with policy.autocast():
            logits = policy.head(states).float()
        if temperature != 1:
            logits = logits / temperature
        return logits[which, tokens] - torch.logsumexp(logits, dim=1)[which]

    unique, which = np.unique(places, return_inverse=True)
    order = np.argsort(which, kind="stable")
    size = max(1, LOGIT_CHUNK // policy.base.config.get_text_config().vocab_size)
    parts = []
    for start in range(0, len(unique), size):
        first, last = np.searchsorted(which[order], [start, start + size])
        chunk = order[first:last]
        arguments = (
            hidden[_tensor(unique[start : start + size], hidden.device)],
            _tensor(which[chunk] - start, hidden.device),
            _tensor(wanted[chunk], hidden.device),
        )
        keep = torch.is_grad_enabled() and len(unique) > size
        parts.append(
            checkpoint(some, *arguments, use_reentrant=False) if keep else some(*arguments)
        )
    return torch.cat(parts)[_tensor(np.argsort(order, kind="stable"), hidden.device)]


def _tensor(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values).to(device)
