"""Token tree (trie) of the answer choices, so that shared prefixes are computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.engines.tokens.packing import Integers, Row, Tree, common_prefix


class Branch(NamedTuple):
    """A node of the tree: the path to it, and its children."""

    path: list[int]
    children: list[int]


@dataclass
class ChoiceTree:
    """The token trie of some replies. Nodes are numbered; a path is the nodes of one choice."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, replies: Sequence[Sequence[int]]) -> "ChoiceTree":
        tree, nodes = cls(), {}
        for reply in replies:
            path: list[int] = []
            for token in reply:
                key = (path[-1] if path else -1, int(token))
                if key not in nodes:
                    nodes[key] = len(tree.tokens)
                    tree.tokens.append(key[1])
                    tree.parents.append(key[0])
                path.append(nodes[key])
            tree.paths.append(path)
        return tree

    @cached_property
    def inner(self) -> list[int]:
        """The inner nodes: only they go through the network."""
        return sorted(set(self.parents) - {-1})

    @cached_property
    def branches(self) -> list[Branch]:
        """Branching nodes after the stem, the common prefix of all choices."""
        stem = set(self.paths[0][: common_prefix([path[:-1] for path in self.paths])])
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            if node not in stem:
                children.setdefault(parent, []).append(node)
        return [Branch(self.path(parent), nodes) for parent, nodes in children.items()]

    @cached_property
    def sequences(self) -> list[list[int]]:
        """The maximal paths of inner nodes from the root."""
        ends = set(self.inner) - {self.parents[node] for node in self.inner}
        return [self.path(node) for node in sorted(ends)] or [[]]

    def room(self, row: float) -> float:
        """The longest context for which all `sequences` fit in a row of this many tokens."""
        return (row - sum(map(len, self.sequences))) / len(self.sequences)

    def path(self, node: int) -> list[int]:
        """The nodes from the root to this one; empty for -1, the parent of the roots."""
        path: list[int] = []
        while node >= 0:
            path.insert(0, node)
            node = self.parents[node]
        return path

    @cached_property
    def shape(self) -> Tree:
        place = {node: i for i, node in enumerate(self.inner)}
        sees = np.eye(len(self.inner), dtype=np.bool_)
        depth = np.zeros(len(self.inner), dtype=np.int64)
        for i, node in enumerate(self.inner):
            if (parent := self.parents[node]) >= 0:
                sees[i] |= sees[place[parent]]
                depth[i] = depth[place[parent]] + 1
        return Tree(sees, depth)

    def row(self, context: Sequence[int]) -> Row:
        """A context followed by the tree; every node is a target.

        The roots follow the context's last token, so it must not be empty.
        """
        tokens, offsets, wanted = self._arrays
        here = np.asarray(context, dtype=np.int64)
        return Row(np.concatenate([here, tokens]), len(here) + offsets, wanted, self.shape)

    @cached_property
    def _arrays(self) -> tuple[Integers, Integers, Integers]:
        """Inner tokens; for each node the offset of its parent after the context; all tokens."""
        place = {node: i for i, node in enumerate(self.inner)} | {-1: -1}
        inner = np.array([self.tokens[node] for node in self.inner], dtype=np.int64)
        parents = np.array([place[parent] for parent in self.parents], dtype=np.int64)
        return inner, parents, np.array(self.tokens, dtype=np.int64)

    @cached_property
    def membership(self) -> NDArray[np.float32]:
        """Choices x nodes: 1 where a node is on the path of a choice."""
        matrix = np.zeros((len(self.paths), len(self.tokens)), dtype=np.float32)
        for choice, path in enumerate(self.paths):
            matrix[choice, path] = 1.0
        return matrix
