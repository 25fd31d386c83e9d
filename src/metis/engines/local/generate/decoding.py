"""Decoding: the next token's logits for all rows of a batch.

`BufferedDecoder` serves models with plain attention: GQA without repeat_kv, a KV cache in fixed
buffers, and on a GPU a bfloat16 copy of the weights and a CUDA graph per shape, since small models
are bound by kernel launches. `LibraryDecoder` serves all others with transformers' own cache.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from metis.engines.local.generate.cache import Buffers
from metis.engines.local.generate.prefill import prefill
from metis.engines.local.generate.weights import empty_copy, refresh
from metis.engines.local.model.cuda_graphs import GraphRecorder
from metis.engines.local.model.policy import Policy

NAME = "metis_one_token"

COLUMNS = 256
"""On a GPU the columns read are a multiple of this."""

LEAST_ROWS = 8
"""On a GPU the rows computed are this times a power of two, or all of the batch."""

GRAPHS = 64
"""CUDA graphs kept, one for each pair of rows and columns."""


class Decoder(Protocol):
    """Decodes one batch at a time."""

    every: int
    """Tokens per row between two checks of which rows have ended."""

    def begin(
        self, prompts: Sequence[list[int]], copies: Sequence[int], longest: int
    ) -> torch.Tensor:
        """Prefill `copies` of each prompt; returns the first tokens' logits, rows prompt-major."""

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append a token to every row; returns the next tokens' logits, valid until the next."""

    def keep(self, rows: list[int]) -> list[int]:
        """Drop other rows where that saves work; returns which row each row was before."""

    def sync(self) -> None:
        """Take over the policy's new weights."""


def decoder_of(policy: Policy) -> Decoder:
    return BufferedDecoder(policy) if policy.plain else LibraryDecoder(policy)


class BufferedDecoder:
    """Decodes on fixed buffers. A GPU keeps them, and its batch may have spare rows."""

    positions: torch.Tensor
    column: torch.Tensor

    def __init__(self, policy: Policy, bucketed: bool | None = None) -> None:
        """Buckets, so that few shapes recur: on a GPU, unless told."""
        self.policy = policy
        self.bucketed = policy.device.type == "cuda" if bucketed is None else bucketed
        self.every = 8 if self.bucketed else 1
        self.rows = self.width = 0
        self.buffers: Buffers | None = None
        self.recorder = GraphRecorder(policy.device, GRAPHS)
        self.copy: Any = None
        self.stale = True

    def sync(self) -> None:
        self.stale = True

    def begin(
        self, prompts: Sequence[list[int]], copies: Sequence[int], longest: int
    ) -> torch.Tensor:
        device = self.policy.device
        if self.bucketed and self.stale:
            self.copy = self.copy or empty_copy(self.policy, NAME)
            refresh(self.copy, self.policy)
            self.stale = False
        begun = prefill(self.policy, prompts)
        count = sum(copies)
        self.rows = -(-count // LEAST_ROWS) * LEAST_ROWS if self.bucketed else count
        self.width = begun.mask.shape[1]
        self.buffers = self._roomy(begun.cache, self._columns(self.width + longest))
        places = torch.zeros(self.rows, dtype=torch.long, device=device)
        places[:count] = _places(copies, device)
        self.buffers.fill(begun.cache, begun.mask, places)
        self.positions = begun.mask.sum(1, keepdim=True)[places]
        self.column = torch.tensor([self.width], device=device)
        return begun.logits[places]

    def _roomy(self, read: Any, columns: int) -> Buffers:
        """Buffers for this batch: the last ones, where they have room and have buckets."""
        rows, last = self.rows, self.buffers
        if self.bucketed and last is not None:
            if last.fits(rows, columns):
                return last
            rows, columns = max(rows, last.rows), max(columns, last.columns)
        self.recorder.forget()
        self.buffers = last = None
        return Buffers(read, rows, columns, self.policy.dtype)

    def _columns(self, used: int) -> int:
        return -(-used // COLUMNS) * COLUMNS if self.bucketed else used

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        self.width += 1
        shape = self.rows, self._columns(self.width)
        inputs = [tokens[:, None], self.positions, self.column]
        logits = self.recorder.run(shape, partial(self._forward, *shape), inputs)
        self.positions += 1
        self.column += 1
        return logits

    def _forward(
        self,
        rows: int,
        columns: int,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        column: torch.Tensor,
    ) -> torch.Tensor:
        assert self.buffers is not None
        given = {
            "input_ids": tokens,
            "position_ids": positions,
            "attention_mask": self.buffers.aim(rows, columns, column),
            "past_key_values": self.buffers.cache,
        }
        if not self.bucketed:
            with self.policy.attention(NAME):
                return self.policy.head(self.policy.states(**given)[:, -1])
        logits: torch.Tensor = self.copy(**given, use_cache=True).logits
        return logits[:, -1]

    def keep(self, rows: list[int]) -> list[int]:
        size = len(rows)
        if self.bucketed:
            size = LEAST_ROWS * (1 << (-(-size // LEAST_ROWS) - 1).bit_length())
        if size >= self.rows:
            return list(range(self.rows))
        assert self.buffers is not None
        self.rows = size
        kept = [*rows, *[rows[0]] * (size - len(rows))]
        places = torch.tensor(kept, device=self.policy.device)
        self.buffers.keep(places, self.width)
        self.positions = self.positions[places]
        return kept


class LibraryDecoder:
    """Decodes with the cache and masks of transformers."""

    every = 1
    mask: torch.Tensor
    cache: Any

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def sync(self) -> None:
        """It reads the policy's own weights."""

    def begin(
        self, prompts: Sequence[list[int]], copies: Sequence[int], longest: int
    ) -> torch.Tensor:
        begun = prefill(self.policy, prompts)
        places = _places(copies, self.policy.device)
        self.mask, self.cache = begun.mask[places], begun.cache
        self.cache.batch_select_indices(places)
        return begun.logits[places]

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(self.mask), 1)], dim=1)
        with self.policy.autocast():
            hidden = self.policy.states(
                input_ids=tokens[:, None],
                attention_mask=self.mask,
                position_ids=self.mask.sum(1, keepdim=True) - 1,
                past_key_values=self.cache,
            )[:, -1]
            return self.policy.head(hidden)

    def keep(self, rows: list[int]) -> list[int]:
        if len(rows) < len(self.mask):
            places = torch.tensor(rows, device=self.policy.device)
            self.cache.batch_select_indices(places)
            self.mask = self.mask[places]
        return rows


def _places(copies: Sequence[int], device: torch.device) -> torch.Tensor:
    """The prompt of each row."""
    each = torch.tensor(copies, device=device)
    return torch.arange(len(copies), device=device).repeat_interleave(each)


def folded_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Folds the query heads of a KV group into the sequence dimension (GQA without repeat_kv)."""
    rows, heads, _tokens, size = query.shape
    folded = query.reshape(rows, key.shape[1], -1, size).to(key.dtype)
    mixed = scaled_dot_product_attention(
        folded, key, value, attn_mask=attention_mask, scale=scaling
    )
    return mixed.reshape(rows, 1, heads, size), None


AttentionInterface.register(NAME, folded_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
