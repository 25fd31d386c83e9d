"""Rows with a shared prefix, and their layout for a forward pass.

A row may end in a token tree, so that many short endings of one context (the eleven values of a
judgment) cost one pass over the context. Rows are right-padded, where the causal mask hides the
padding; rows of very different lengths go into several padded batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

MOST_BATCHES = 4
"""Maximum padded batches of a prefix group."""


class Layout(NamedTuple):
    """How a device wants rows to be padded."""

    aligned: int = 8
    """Widths and prefix lengths are multiples of this, for fast GPU kernels."""
    spare: int = 1 << 62
    """Padding tokens that cost less than another padded batch; by default never split."""
    packed: bool = False
    """Plain rows without a prefix lie one after another, without padding."""


ONE_BATCH = Layout()


@dataclass(frozen=True)
class Row:
    """Tokens after the shared prefix, and the targets whose log-probabilities are computed.

    Target k is token `wanted[k]` after the token at `positions[k]`. The last tokens may be a token
    `tree`, rooted at the token before them; None is a plain sequence.
    """

    tokens: Integers
    positions: Integers
    wanted: Integers
    tree: "Tree | None" = None

    @property
    def trunk(self) -> int:
        """The number of tokens before the tree."""
        return len(self.tokens) - (0 if self.tree is None else len(self.tree.depth))


@dataclass(frozen=True)
class Tree:
    """The shape of a token tree: its attention mask, and the depth of each token."""

    sees: NDArray[np.bool_]
    depth: NDArray[np.int64]


@dataclass(frozen=True)
class PaddedBatch:
    """Rows padded to one width."""

    rows: Sequence[Row]
    width: int

    @property
    def size(self) -> int:
        return len(self.rows) * self.width

    @property
    def tokens(self) -> Integers:
        grid = np.zeros((len(self.rows), self.width), dtype=np.int64)
        for i, row in enumerate(self.rows):
            grid[i, : len(row.tokens)] = row.tokens
        return grid

    @property
    def sees(self) -> NDArray[np.bool_]:
        """The attention mask within each row."""
        sees = np.tile(np.tri(self.width, dtype=np.bool_), (len(self.rows), 1, 1))
        for i, row in enumerate(self.rows):
            if row.tree is not None:
                sees[i, row.trunk : len(row.tokens), row.trunk : len(row.tokens)] = row.tree.sees
        return sees

    @property
    def depths(self) -> Integers:
        """The position ids of the tokens, relative to the row."""
        depths = np.tile(np.arange(self.width), (len(self.rows), 1))
        for i, row in enumerate(self.rows):
            if row.tree is not None:
                depths[i, row.trunk : len(row.tokens)] = row.trunk + row.tree.depth
        return depths


@dataclass(frozen=True)
class PrefixGroup:
    """Rows that share a prefix (which may be empty)."""

    prefix: list[int]
    rows: list[Row]
    layout: Layout = ONE_BATCH

    @property
    def trees(self) -> bool:
        return any(row.tree is not None for row in self.rows)

    @property
    def packed(self) -> bool:
        """True if the rows are packed without padding."""
        return self.layout.packed and not self.prefix and not self.trees

    @property
    def whole(self) -> PaddedBatch:
        """All rows in one padded batch."""
        return PaddedBatch(self.rows, int(self._widths.max()))

    @cached_property
    def batches(self) -> list[PaddedBatch]:
        """The rows in order, split into padded batches where that saves padding."""
        if self.packed:
            return [PaddedBatch([row], len(row.tokens)) for row in self.rows]
        if not (self.prefix and self.trees):
            return [self.whole]
        widths = self._widths
        cuts = _cuts(widths, self.layout.spare)
        return [PaddedBatch(self.rows[a:b], int(widths[a:b].max())) for a, b in cuts]

    @property
    def _widths(self) -> Integers:
        """The aligned length of each row."""
        lengths = np.array([len(row.tokens) for row in self.rows])
        unit = self.layout.aligned if self.trees else 1
        return -(-lengths // unit) * unit

    @property
    def size(self) -> int:
        """Tokens of the forward pass, with padding."""
        return len(self.prefix) + sum(batch.size for batch in self.batches)

    def split(self, budget: int) -> Iterator["PrefixGroup"]:
        """Split into micro-batches whose padded rows have at most `budget` tokens.

        The size is not exactly monotone in the number of rows, so one may be smaller than possible.
        """
        start = 0
        while start < len(self.rows):
            fits, rest = 1, len(self.rows) - start
            while fits < rest:
                tried = (fits + rest + 1) // 2
                part = self._part(start, start + tried)
                if part.size - len(self.prefix) <= budget:
                    fits = tried
                else:
                    rest = tried - 1
            yield self._part(start, start + fits)
            start += fits

    def _part(self, start: int, stop: int) -> "PrefixGroup":
        return PrefixGroup(self.prefix, self.rows[start:stop], self.layout)


def _cuts(widths: Integers, spare: int) -> list[tuple[int, int]]:
    """Greedy split of rows into batches, each time where it saves the most padding."""
    ends = [0, len(widths)]
    while len(ends) <= MOST_BATCHES:
        saved, cut = max(_best_cut(widths, a, b) for a, b in pairwise(ends))
        if saved < max(1, spare):
            break
        ends = sorted([*ends, cut])
    return list(pairwise(ends))


def _best_cut(widths: Integers, start: int, stop: int) -> tuple[int, int]:
    """The padding saved by the best split of these rows, and its position."""
    some = widths[start:stop]
    if len(some) < 2:
        return 0, start
    before = np.maximum.accumulate(some)[:-1]
    after = np.maximum.accumulate(some[::-1])[::-1][1:]
    counts = np.arange(1, len(some))
    saved = len(some) * some.max() - counts * before - (len(some) - counts) * after
    best = int(np.argmax(saved))
    return int(saved[best]), start + best + 1


def sequence_row(tokens: Integers, mask: NDArray[np.bool_], skip: int) -> Row:
    """A plain row after `skip` tokens of prefix; the tokens of the loss mask are targets."""
    targets = np.flatnonzero(mask[skip + 1 :])
    return Row(tokens[skip:-1], targets, tokens[skip + 1 :][targets])


def common_prefix(sequences: Sequence[list[int]]) -> int:
    """The length of the common prefix of all sequences (that of min and max)."""
    first, last = min(sequences), max(sequences)
    for i, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return i
    return min(len(first), len(last))


def prefilled(prompts: Sequence[list[int]]) -> int:
    """Prefilled tokens: every prompt once, their common prefix once."""
    repeated = common_prefix(prompts) * (len(prompts) - 1) if prompts else 0
    return sum(map(len, prompts)) - repeated


def shareable(sequences: Sequence[list[int]], latest: Iterable[int], aligned: int) -> int:
    """The longest aligned shared prefix, of at most `latest[k]` tokens for row k."""
    shared = min(common_prefix(sequences), *latest)
    return shared - shared % aligned
