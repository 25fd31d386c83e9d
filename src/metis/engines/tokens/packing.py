"""Rows that continue one prefix, and how they are laid out for a pass through the network.

A row may be a tree, so that many short endings of one context (the eleven values of a judgment)
cost one pass over the context. Rows are padded on the right, where a causal mask keeps padding out
of everything; where they differ much in length, in strips of several widths.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

STRIPS = 4
"""The most strips of a bundle."""


class Layout(NamedTuple):
    """Alignment of trees and their prefix that a device wants."""

    aligned: int = 8
    """Sizes are multiples of this, where a GPU's kernels are fastest."""
    spare: int = 1 << 62
    """Tokens of padding that cost less than one more strip; for most, more than there ever are."""


ONE_STRIP = Layout()


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
        """The number of tokens before the tree."""
        return len(self.tokens) - (0 if self.tree is None else len(self.tree.depth))


@dataclass(frozen=True)
class Tree:
    """The shape of a tree of tokens: what each of them sees of the others, and how deep it is."""

    sees: NDArray[np.bool_]
    depth: NDArray[np.int64]


@dataclass(frozen=True)
class Strip:
    """Rows side by side, padded to one width."""

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
        """The attention mask: the tokens of its row that each token sees."""
        sees = np.tile(np.tri(self.width, dtype=np.bool_), (len(self.rows), 1, 1))
        for i, row in enumerate(self.rows):
            if row.tree is not None:
                sees[i, row.trunk : len(row.tokens), row.trunk : len(row.tokens)] = row.tree.sees
        return sees

    @property
    def depths(self) -> Integers:
        """The place of every token in its row, as a sequence would have it."""
        depths = np.tile(np.arange(self.width), (len(self.rows), 1))
        for i, row in enumerate(self.rows):
            if row.tree is not None:
                depths[i, row.trunk : len(row.tokens)] = row.trunk + row.tree.depth
        return depths


@dataclass(frozen=True)
class Bundle:
    """Rows that continue one prefix (which may be empty)."""

    prefix: list[int]
    rows: list[Row]
    layout: Layout = ONE_STRIP

    @property
    def trees(self) -> bool:
        return any(row.tree is not None for row in self.rows)

    @property
    def whole(self) -> Strip:
        """All rows side by side."""
        return Strip(self.rows, int(self._widths.max()))

    @cached_property
    def strips(self) -> list[Strip]:
        """The rows in their order, cut where much padding is saved."""
        if not (self.prefix and self.trees):
            return [self.whole]
        widths = self._widths
        cuts = _cuts(widths, self.layout.spare)
        return [Strip(self.rows[a:b], int(widths[a:b].max())) for a, b in cuts]

    @property
    def _widths(self) -> Integers:
        """The padded length of each row on its own."""
        lengths = np.array([len(row.tokens) for row in self.rows])
        unit = self.layout.aligned if self.trees else 1
        return -(-lengths // unit) * unit

    @property
    def size(self) -> int:
        """Tokens that pass through the network."""
        return len(self.prefix) + sum(strip.size for strip in self.strips)

    def split(self, budget: int) -> Iterator["Bundle"]:
        """Parts whose rows, with their padding, stay within a budget of tokens.

        Strips make the size of a part not quite monotone in its rows, so that one may end early.
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

    def _part(self, start: int, stop: int) -> "Bundle":
        return Bundle(self.prefix, self.rows[start:stop], self.layout)


def _cuts(widths: Integers, spare: int) -> list[tuple[int, int]]:
    """The cuts of rows of these widths into strips: each time where that saves most."""
    ends = [0, len(widths)]
    while len(ends) <= STRIPS:
        saved, cut = max(_best_cut(widths, a, b) for a, b in pairwise(ends))
        if saved < max(1, spare):
            break
        ends = sorted([*ends, cut])
    return list(pairwise(ends))


def _best_cut(widths: Integers, start: int, stop: int) -> tuple[int, int]:
    """The padding that one cut between these rows saves, and where."""
    some = widths[start:stop]
    if len(some) < 2:
        return 0, start
    before = np.maximum.accumulate(some)[:-1]
    after = np.maximum.accumulate(some[::-1])[::-1][1:]
    counts = np.arange(1, len(some))
    saved = len(some) * some.max() - counts * before - (len(some) - counts) * after
    best = int(np.argmax(saved))
    return int(saved[best]), start + best + 1


def plain(tokens: Integers, mask: NDArray[np.bool_], skip: int) -> Row:
    """The row of an ordinary sequence after `skip` tokens of prefix; masked tokens are targets."""
    targets = np.flatnonzero(mask[skip + 1 :])
    return Row(tokens[skip:-1], targets, tokens[skip + 1 :][targets])


def common_prefix(sequences: Sequence[list[int]]) -> int:
    """The length of the common prefix of all sequences: that of the two extremes."""
    first, last = min(sequences), max(sequences)
    for i, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return i
    return min(len(first), len(last))


def shareable(sequences: Sequence[list[int]], latest: Iterable[int], aligned: int) -> int:
    """The longest prefix that may be shared, when row k has to begin at `latest[k]` or before."""
    shared = min(common_prefix(sequences), *latest)
    return shared - shared % aligned
