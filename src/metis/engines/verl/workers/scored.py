"""A scored judgment as one row of the update: the log-probabilities of its choices, and their loss.

verl's workers report the log-probability of the token that follows a position; a judgment is about
all that may. As for verl's top-k distillation, a worker hands the logits to the loss before it asks
for its value, so that it can read them.

The token tree of the choices needs a sequence for each of its longest inner paths; of one-token
choices that is the context alone. The sequences of a row are packed as verl packs rows: each begins
at position 0, where attention begins anew.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from verl.utils import tensordict_utils
from verl.utils.ulysses import ulysses_pad_and_slice_inputs

from metis.core import Chat, Continuation, Judgment
from metis.engines.objective import loss
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.packing import Integers

Encode = Callable[[Chat, str], tuple[list[int], list[int]]]
"""A chat and a reply to it -> the tokens of both."""

NAME = "choice_{}"
"""Of an output of the worker: the log-probability of the i-th token that may follow a position."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The nodes of a token tree in their row, and their part in the loss.

    Node k is `token[k]` as what follows the token at `place[k]`, the `slot[k]`-th to do so.
    """

    place: Integers
    slot: Integers
    token: Integers
    units: loss.Units

    def packed(self) -> bytes:
        """As one value of a column: the queue to verl's workers makes dicts of objects."""
        return pickle.dumps(self)


class Laid(NamedTuple):
    """The tokens of a row, their positions, and the choices that are read of it."""

    tokens: Integers
    positions: Integers
    choices: Choices


def lay(
    context: Sequence[int], tree: ChoiceTree, rows: Sequence[tuple[Judgment, Continuation]]
) -> Laid:
    """One row for the choices of a judgment, which are those of the tree."""
    sequences = [[*context, *(tree.tokens[node] for node in path)] for path in tree.sequences]
    follows, start = {-1: len(context) - 1}, 0
    for sequence, path in zip(sequences, tree.sequences, strict=True):
        for depth, node in enumerate(path):
            follows.setdefault(node, start + len(context) + depth)
        start += len(sequence)
    slot, taken = [], Counter[int]()
    for parent in tree.parents:
        slot.append(taken[parent])
        taken[parent] += 1
    place = np.array([follows[parent] for parent in tree.parents])
    choices = Choices(place, np.array(slot), np.array(tree.tokens), _units(tree, rows))
    positions = np.concatenate([np.arange(len(sequence)) for sequence in sequences])
    return Laid(np.concatenate(sequences), positions, choices)


class Trees:
    """The token trees of choices, each made once."""

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self.by_texts: dict[tuple[str, ...], ChoiceTree] = {}

    def lay(self, rows: Sequence[tuple[Judgment, Continuation]]) -> Laid:
        """The row of a judgment, whose rows are its choices."""
        chat, texts = rows[0][1].chat, tuple(choice.text for _, choice in rows)
        if texts not in self.by_texts:
            self.by_texts[texts] = ChoiceTree.of([self.encode(chat, text)[1] for text in texts])
        return lay(self.encode(chat, texts[0])[0], self.by_texts[texts], rows)


def _units(tree: ChoiceTree, rows: Sequence[tuple[Judgment, Continuation]]) -> loss.Units:
    """As on the local engine, but the policy that judged is known by the scores it reported."""
    clip = rows[0][0].clip
    units = loss.choices(
        tree.paths,
        np.array([judgment.advantage for judgment, _ in rows]),
        np.array([judgment.weight for judgment, _ in rows]),
        np.array([choice.offset for _, choice in rows]) if clip else None,
    )
    if clip:
        units.old = _by_node(tree, [choice.logprob for _, choice in rows])
    return units


def _by_node(tree: ChoiceTree, logprobs: Sequence[float]) -> loss.Floats:
    """Log-probabilities of choices as terms of the nodes, which add up to them."""
    terms = np.zeros(len(tree.tokens))
    for path, logprob in sorted(zip(tree.paths, logprobs, strict=True), key=lambda it: len(it[0])):
        terms[path[-1]] = logprob - terms[path[:-1]].sum()
    return terms


class _Nodes(NamedTuple):
    """All nodes of a micro-batch; `place` is among its packed tokens."""

    place: torch.Tensor
    slot: torch.Tensor
    token: torch.Tensor
    choices: list[Choices]
    row: list[int]
    """Of the micro-batch, by judgment."""

    @classmethod
    def of(cls, data: Any, device: torch.device) -> "_Nodes | None":
        starts = data["input_ids"].offsets().tolist()
        column = enumerate(tensordict_utils.get(data, "choices"))
        choices: list[tuple[int, Choices]] = [(i, pickle.loads(it)) for i, it in column if it]
        if not choices:
            return None

        def packed(columns: Sequence[Integers]) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(columns)).to(device)

        return cls(
            packed([starts[i] + each.place for i, each in choices]),
            packed([each.slot for _, each in choices]),
            packed([each.token for _, each in choices]),
            [each for _, each in choices],
            [i for i, _ in choices],
        )

    @property
    def slots(self) -> int:
        return 1 + max(int(each.slot.max()) for each in self.choices)


def read_choices(logits: torch.Tensor, data: Any) -> dict[str, torch.Tensor]:
    """The log-probability of each node of a micro-batch, at the place that it follows.

    `logits` are of the packed tokens, (1, tokens, vocabulary), or of this rank's share of them.
    """
    nodes = _Nodes.of(data, logits.device)
    if nodes is None:
        return {}
    place = _on_this_rank(nodes.place, data)
    here = place >= 0
    places, which = torch.unique(place[here], return_inverse=True)
    table = torch.log_softmax(logits[0].index_select(0, places).float(), -1)
    values = torch.zeros(nodes.slots, logits.shape[1], device=logits.device)
    values = values.index_put((nodes.slot[here], place[here]), table[which, nodes.token[here]])
    return {NAME.format(i): row[None] for i, row in enumerate(values)}


def _on_this_rank(place: torch.Tensor, data: Any) -> torch.Tensor:
    """Places in this rank's share of the packed tokens; -1 for those of other ranks."""
    ranks = tensordict_utils.get_non_tensor_data(data=data, key="sp_size", default=1)
    if ranks == 1:
        return place
    total = int(data["input_ids"].offsets()[-1])
    tokens = torch.arange(total, device=place.device)[None]
    mine, _, _ = ulysses_pad_and_slice_inputs(tokens, sp_size=ranks, pad_value=-1)
    real = torch.nonzero(mine[0] >= 0)[:, 0]
    places = torch.full((total,), -1, device=place.device)
    places[mine[0][real]] = real
    return places[place]


def choices_loss(
    outputs: Any, data: Any, coefficient: torch.Tensor, low: float, high: float
) -> torch.Tensor:
    """The loss of the scored judgments of a micro-batch, each times its row's coefficient."""
    nodes = _Nodes.of(data, coefficient.device)
    if nodes is None:
        return coefficient.new_zeros(())
    table = torch.stack([outputs[NAME.format(i)].values() for i in range(nodes.slots)])
    factors = coefficient[nodes.row].tolist()
    units = [
        replace(each.units, coefficient=factor * each.units.coefficient)
        for each, factor in zip(nodes.choices, factors, strict=True)
    ]
    value, _ = loss.bundle_loss(table[nodes.slot, nodes.place], units, low, high)
    return value
