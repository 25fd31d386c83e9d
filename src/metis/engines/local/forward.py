"""Log-probabilities of tokens, with what sequences share computed once.

A `Bundle` is a prefix and rows that continue it. The prefix passes through the network once and its
keys and values serve all rows; gradients flow back through them. A row may be a tree, so that many
short endings of one context (the eleven values of a judgment) cost one pass over the context. Rows
are padded on the right, where a causal mask keeps padding out of everything.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache

from metis.engines.local import block_attention
from metis.engines.local.policy import LOGIT_CHUNK, Policy

Integers = NDArray[np.int64]

ALIGNED = 8
"""Matrix kernels are fastest where sizes are multiples of this."""


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

    @property
    def trunk(self) -> int:
        """How many tokens come before the tree."""
        return len(self.tokens) - (0 if self.tree is None else len(self.tree.depth))


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
    def trees(self) -> bool:
        return any(row.tree is not None for row in self.rows)

    @property
    def width(self) -> int:
        """Tokens of a row with its padding."""
        longest = max(len(row.tokens) for row in self.rows)
        return -(-longest // ALIGNED) * ALIGNED if self.trees else longest

    @property
    def size(self) -> int:
        """Tokens that pass through the network."""
        return len(self.prefix) + len(self.rows) * self.width

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


def shareable(sequences: Sequence[list[int]], latest: Iterable[int]) -> int:
    """How many tokens may become a prefix, when row k has to begin at `latest[k]` or before."""
    shared = min(common_prefix(sequences), *latest)
    return shared - shared % ALIGNED


def token_logprobs(policy: Policy, bundle: Bundle, temperature: float = 1.0) -> torch.Tensor:
    """The log-probabilities of all targets of a bundle, row by row, as one vector."""
    [logprobs] = together(policy, [bundle], [temperature])
    return logprobs


def together(
    policy: Policy, bundles: Sequence[Bundle], temperatures: Sequence[float]
) -> list[torch.Tensor]:
    """The same of several bundles, in one pass; of several, each must be `joinable`."""
    grids = [_grid(bundle) for bundle in bundles]
    with policy.autocast():
        if joinable(policy, bundles[0]) and (len(bundles) > 1 or bundles[0].trees):
            hidden = _in_one_sequence(policy, bundles, grids)
        else:
            hidden = [_side_by_side(policy, bundles[0], grids[0])]
    policy.processed += sum(len(row.tokens) for bundle in bundles for row in bundle.rows)
    found = []
    for bundle, grid, states, temperature in zip(bundles, grids, hidden, temperatures, strict=True):
        width = grid.shape[1]
        places = np.concatenate([row.positions + i * width for i, row in enumerate(bundle.rows)])
        wanted = np.concatenate([row.wanted for row in bundle.rows])
        found.append(_head_logprobs(policy, states, places, wanted, temperature))
    return found


def joinable(policy: Policy, bundle: Bundle) -> bool:
    """Whether a bundle can share a pass: plain rows that stand alone, or trees on a prefix."""
    return policy.plain and bundle.trees == bool(bundle.prefix)


@torch.no_grad()
def scores(policy: Policy, bundle: Bundle, budget: int) -> NDArray[np.float32]:
    """The same without gradients, within a budget of tokens."""
    parts = [token_logprobs(policy, part) for part in bundle.split(budget)]
    values: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
    return values


def _grid(bundle: Bundle) -> Integers:
    """The tokens of all rows, padded on the right."""
    grid = np.zeros((len(bundle.rows), bundle.width), dtype=np.int64)
    for i, row in enumerate(bundle.rows):
        grid[i, : len(row.tokens)] = row.tokens
    return grid


def _side_by_side(policy: Policy, bundle: Bundle, grid: Integers) -> torch.Tensor:
    """The last layer's states of all rows. Plain rows need no mask: causality is all there is."""
    prefix = bundle.prefix
    arguments: dict[str, Any] = {"input_ids": _tensor(grid, policy.device)}
    if bundle.trees:
        ones = np.ones((*grid.shape, len(prefix)), dtype=np.bool_)
        mask = np.concatenate([ones, _sees(bundle)], axis=2)
        arguments["attention_mask"] = _tensor(mask[:, None], policy.device)
        arguments["position_ids"] = _tensor(_positions(bundle), policy.device)
    cache = prefix_cache(policy, prefix, len(grid)) if prefix else None
    return policy.states(**arguments, past_key_values=cache).flatten(0, 1)


def _in_one_sequence(
    policy: Policy, bundles: Sequence[Bundle], grids: Sequence[Integers]
) -> list[torch.Tensor]:
    """Prefixes and rows of all bundles in one pass; what the rows leave, bundle by bundle."""
    tokens, positions, blocks = [], [], []
    biases: list[Any] = []
    for bundle, grid in zip(bundles, grids, strict=True):
        before = len(bundle.prefix)
        tokens += [np.asarray(bundle.prefix, dtype=np.int64), grid.ravel()]
        positions += [np.arange(before), _positions(bundle).ravel()]
        biases.append(_bias(policy, bundle) if bundle.trees else None)
        blocks.append(block_attention.Block(before, len(grid), bundle.width))
        policy.processed += before

    def states(ids: torch.Tensor, places: torch.Tensor, *biases: Any) -> torch.Tensor:
        given = {"input_ids": ids, "position_ids": places}
        with policy.attention(block_attention.NAME):
            return policy.states(**given, blocks=tuple(blocks), biases=biases)

    arrays = np.concatenate(tokens)[None], np.concatenate(positions)[None]
    inputs = [*(_tensor(array, policy.device) for array in arrays), *biases]
    recorded = not torch.is_grad_enabled() and all(bundle.trees for bundle in bundles)
    found = policy.recorder.run(tuple(blocks), states, inputs) if recorded else states(*inputs)
    parts = torch.split(found[0], [block.size for block in blocks])
    return [part[block.prefix :] for part, block in zip(parts, blocks, strict=True)]


def new_cache(policy: Policy) -> Any:
    """An empty cache for keys and values."""
    return DynamicCache(config=policy.base.config)


def prefix_cache(policy: Policy, prefix: list[int], copies: int) -> Any:
    """A cache of the prefix, computed once and seen by every row."""
    cache = new_cache(policy)
    policy.states(input_ids=torch.tensor([prefix], device=policy.device), past_key_values=cache)
    policy.processed += len(prefix)
    return expanded(cache, copies)


def expanded(cache: Any, copies: int) -> Any:
    """A cache of one row seen by many, not copied for them."""
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in other.layers:
        layer.keys = layer.keys.expand(copies, -1, -1, -1)
        layer.values = layer.values.expand(copies, -1, -1, -1)
    return other


def _sees(bundle: Bundle) -> NDArray[np.bool_]:
    """What every token sees of its row."""
    sees = np.tile(np.tri(bundle.width, dtype=np.bool_), (len(bundle.rows), 1, 1))
    for i, row in enumerate(bundle.rows):
        if row.tree is not None:
            sees[i, row.trunk : len(row.tokens), row.trunk : len(row.tokens)] = row.tree.sees
    return sees


def _bias(policy: Policy, bundle: Bundle) -> torch.Tensor:
    """The same as what is added to the scores of attention."""
    unseen = _tensor(~_sees(bundle), policy.device)
    return torch.zeros(unseen.shape, dtype=policy.kind, device=policy.device).masked_fill_(
        unseen, -torch.inf
    )


def _positions(bundle: Bundle) -> Integers:
    """The position of every token in its whole sequence."""
    positions = np.tile(np.arange(bundle.width), (len(bundle.rows), 1))
    for i, row in enumerate(bundle.rows):
        if row.tree is not None:
            positions[i, row.trunk : len(row.tokens)] = row.trunk + row.tree.depth
    return positions + len(bundle.prefix)


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
