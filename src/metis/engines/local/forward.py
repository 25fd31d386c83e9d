"""Log-probabilities of tokens, with what sequences share computed once.

A `Bundle` is a prefix and rows that continue it. The prefix passes through the network once and its
keys and values serve all rows; gradients flow back through them. A row may be a tree, so that many
short endings of one context (the eleven values of a judgment) cost one pass over the context. Rows
are padded on the right, where a causal mask keeps padding out of everything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from metis.engines.local.policy import LOGIT_CHUNK, Policy

Integers = NDArray[np.int64]

PACK_WIDTH = 512
"""Tokens in a packed row: few copies of the prefix, and masks that stay small."""


@dataclass(frozen=True)
class Row:
    """Tokens after the shared prefix, and the tokens whose log-probability is wanted.

    Target k is `wanted[k]` as what follows the token at `positions[k]`. The last tokens may be a
    `tree` that grows from the token before them; None is a plain sequence.
    """

    tokens: Integers
    positions: Integers
    wanted: Integers
    tree: "Tree | None" = None
    stands_for: int = 1
    """How many rows were packed into this one."""

    @property
    def shape(self) -> "Tree":
        """What each token sees of the row, and how deep it is."""
        size = len(self.tokens)
        sees, depth = np.tri(size, dtype=np.bool_), np.arange(size)
        if self.tree is not None:
            start = size - len(self.tree.depth)
            sees[start:, start:] = self.tree.sees
            depth[start:] = start + self.tree.depth
        return Tree(sees, depth)


@dataclass(frozen=True)
class Tree:
    """The shape of a tree of tokens: what each of them sees of the others, and how deep it is."""

    sees: NDArray[np.bool_]
    depth: NDArray[np.int64]


@dataclass(frozen=True)
class Bundle:
    """Rows that continue one prefix (which may be empty)."""

    prefix: list[int]
    rows: list[Row]

    @property
    def width(self) -> int:
        return max(len(row.tokens) for row in self.rows)

    def split(self, budget: int) -> Iterator["Bundle"]:
        """Parts whose rows, padded to the longest, stay within a budget of tokens."""
        part: list[Row] = []
        longest = 0
        for row in self.rows:
            longest = max(longest, len(row.tokens))
            if part and longest * (len(part) + 1) > budget:
                yield Bundle(self.prefix, part)
                part, longest = [], len(row.tokens)
            part.append(row)
        if part:
            yield Bundle(self.prefix, part)


def packed(rows: Sequence[Row], width: int) -> list[Row]:
    """Neighbouring rows side by side in one, up to a width, each blind to the others.

    Every row needs the keys and values of the prefix in front of it: a GPU would spend more time
    on copying them for many short rows than on the rows.
    """
    made: list[Row] = []
    part: list[Row] = []
    for row in [*rows, None]:
        if part and (row is None or sum(len(r.tokens) for r in part) + len(row.tokens) > width):
            made.append(_side_by_side(part))
            part = []
        if row is not None:
            part.append(row)
    return made


def _side_by_side(rows: Sequence[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    starts = np.cumsum([0, *(len(row.tokens) for row in rows)])
    sees = np.zeros((starts[-1], starts[-1]), dtype=np.bool_)
    for row, start, end in zip(rows, starts, starts[1:], strict=False):
        sees[start:end, start:end] = row.shape.sees
    return Row(
        tokens=np.concatenate([row.tokens for row in rows]),
        positions=np.concatenate(
            [row.positions + start for row, start in zip(rows, starts, strict=False)]
        ),
        wanted=np.concatenate([row.wanted for row in rows]),
        tree=Tree(sees, np.concatenate([row.shape.depth for row in rows])),
        stands_for=len(rows),
    )


def plain(tokens: Integers, mask: NDArray[np.bool_], skip: int) -> Row:
    """The row of an ordinary sequence after `skip` tokens of prefix; masked tokens are targets."""
    targets = np.flatnonzero(mask[skip + 1 :])
    return Row(tokens[skip:-1], targets, tokens[skip + 1 :][targets])


def common_prefix(sequences: Sequence[list[int]]) -> int:
    """How many tokens all sequences share at the start: as many as the extremes do."""
    first, last = min(sequences), max(sequences)
    for i, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return i
    return min(len(first), len(last))


def token_logprobs(policy: Policy, bundle: Bundle, temperature: float = 1.0) -> torch.Tensor:
    """The log-probabilities of all targets of a bundle, row by row, as one vector."""
    device, rows, width = policy.device, bundle.rows, bundle.width
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        tokens[i, : len(row.tokens)] = row.tokens
    with policy.autocast():
        cache = prefix_cache(policy, bundle.prefix, len(rows)) if bundle.prefix else None
        hidden = policy.backbone(
            input_ids=torch.from_numpy(tokens).to(device),
            **_structure(bundle, device, cache),
            use_cache=bool(cache),
        ).last_hidden_state
    policy.processed += len(bundle.prefix) + sum(len(row.tokens) for row in rows)
    places = np.concatenate([row.positions + i * width for i, row in enumerate(rows)])
    wanted = np.concatenate([row.wanted for row in rows])
    return _head_logprobs(policy, hidden.flatten(0, 1), places, wanted, temperature)


def new_cache(policy: Policy) -> Any:
    """An empty cache for keys and values."""
    return DynamicCache(config=policy.base.config)


def prefix_cache(policy: Policy, prefix: list[int], copies: int) -> Any:
    """Keys and values of the prefix, computed once and seen by every row."""
    cache = new_cache(policy)
    policy.backbone(
        input_ids=torch.tensor([prefix], device=policy.device),
        past_key_values=cache,
        use_cache=True,
    )
    for layer in cache.layers:
        layer.keys = layer.keys.expand(copies, -1, -1, -1)
        layer.values = layer.values.expand(copies, -1, -1, -1)
    return cache


def _structure(bundle: Bundle, device: torch.device, cache: Any) -> dict[str, Any]:
    """Positions and mask. Plain rows need neither: causality is all there is to know."""
    arguments: dict[str, Any] = {"past_key_values": cache} if cache else {}
    if all(row.tree is None for row in bundle.rows):
        return arguments
    rows, width, before = len(bundle.rows), bundle.width, len(bundle.prefix)
    positions = np.tile(np.arange(width), (rows, 1))
    sees = np.tile(np.tri(width, dtype=np.bool_), (rows, 1, 1))
    for i, row in enumerate(bundle.rows):
        size = len(row.tokens)
        sees[i, :size, :size] = row.shape.sees
        positions[i, :size] = row.shape.depth
    mask = np.concatenate([np.ones((rows, width, before), dtype=np.bool_), sees], axis=2)
    arguments["attention_mask"] = torch.from_numpy(mask[:, None]).to(device)
    arguments["position_ids"] = torch.from_numpy(positions + before).to(device)
    return arguments


def _head_logprobs(
    policy: Policy, hidden: torch.Tensor, places: Integers, wanted: Integers, temperature: float
) -> torch.Tensor:
    """Log-softmax at the wanted tokens; a place with several of them goes through the head once."""

    def some(states: torch.Tensor, which: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        with policy.autocast():
            logits = policy.head(states).float() / temperature
        return logits[which, tokens] - torch.logsumexp(logits, dim=1)[which]

    unique, which = np.unique(places, return_inverse=True)
    order = np.argsort(which, kind="stable")
    size = max(1, LOGIT_CHUNK // policy.base.config.get_text_config().vocab_size)
    parts = []
    for start in range(0, len(unique), size):
        first, last = np.searchsorted(which[order], [start, start + size])
        chunk = order[first:last]
        arguments = (
            hidden[_tensor(unique[start : start + size], hidden)],
            _tensor(which[chunk] - start, hidden),
            _tensor(wanted[chunk], hidden),
        )
        keep = torch.is_grad_enabled() and len(unique) > size
        parts.append(
            checkpoint(some, *arguments, use_reentrant=False) if keep else some(*arguments)
        )
    return torch.cat(parts)[_tensor(np.argsort(order, kind="stable"), hidden)]


def _tensor(values: Integers, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).to(like.device)
