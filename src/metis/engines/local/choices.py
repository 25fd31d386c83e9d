"""Choices as a tree of tokens: what replies have in common is computed once, for any tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from metis.engines.local.forward import Row


@dataclass
class ChoiceTree:
    """The token trie of some replies. Nodes are numbered; a path is the nodes of one choice."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, replies: Sequence[Sequence[int]]) -> "ChoiceTree":
        tree, known = cls(), {}
        for reply in replies:
            path: list[int] = []
            for token in reply:
                key = (path[-1] if path else -1, int(token))
                if key not in known:
                    known[key] = len(tree.tokens)
                    tree.tokens.append(key[1])
                    tree.parents.append(key[0])
                path.append(known[key])
            tree.paths.append(path)
        return tree

    def row(self, context: Sequence[int]) -> Row:
        """A context followed by the tree; every node is a target, leaves are nothing more.

        The context's last token is what the roots follow, so there must be one.
        """
        inner = sorted(set(self.parents) - {-1})
        place = {node: len(context) + i for i, node in enumerate(inner)} | {-1: len(context) - 1}
        parents = [*range(-1, len(context) - 1), *(place[self.parents[node]] for node in inner)]
        return Row(
            tokens=[*context, *(self.tokens[node] for node in inner)],
            targets=[(place[p], t) for p, t in zip(self.parents, self.tokens, strict=True)],
            parents=parents,
        )
