"""A scored judgment as one row of verl's update: log-probabilities of its choices, and their loss.

verl's workers compute the log-probability of one token per position; a judgment needs several. As
for verl's top-k distillation, the loss is called with the logits first, and gathers them there.

The token tree of the choices needs one sequence per maximal inner path; with single-token choices
that is just the context. The sequences of a row are packed: each starts at position 0, where
attention resets.
"""

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from verl.utils import tensordict_utils
from verl.utils.ulysses import ulysses_pad_and_slice_inputs

from metis.core import Continuation, Judgment
from metis.engines.objective import loss
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.packing import Integers

NAME = "choice_{}"
"""Output name: log-probability of the i-th candidate token at each position."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The nodes of a token tree in a row, and their loss terms.

    Node k is token `token[k]` after the token at `place[k]`, as its `slot[k]`-th candidate.
    """

    place: Integers
    slot: Integers
    token: Integers
    terms: loss.LossTerms

    def packed(self) -> bytes:
        """Pickled: the TransferQueue would turn objects into dicts."""
        return pickle.dumps(self)


class PackedChoices(NamedTuple):
    """The tokens and position ids of a row, and its choices."""

    tokens: Integers
    positions: Integers
    choices: Choices


def pack_choices(
    context: Sequence[int], tree: ChoiceTree, rows: Sequence[tuple[Judgment, Continuation]]
) -> PackedChoices:
    """Pack the choices of a judgment into one row."""
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
    choices = Choices(place, np.array(slot), np.array(tree.tokens), _choice_terms(tree, rows))
    positions = np.concatenate([np.arange(len(sequence)) for sequence in sequences])
    return PackedChoices(np.concatenate(sequences), positions, choices)


def _choice_terms(
    tree: ChoiceTree, rows: Sequence[tuple[Judgment, Continuation]]
) -> loss.LossTerms:
    """Loss terms as on the local engine, with old log-probabilities from the reported scores."""
    terms = loss.choice_terms(tree.paths, rows)
    if terms.clip:
        terms.old = _by_node(tree, [choice.logprob for _, choice in rows])
    return terms


def _by_node(tree: ChoiceTree, logprobs: Sequence[float]) -> loss.Floats:
    """Distribute the log-probabilities of choices over nodes, such that paths sum to them."""
    terms = np.zeros(len(tree.tokens))
    for path, logprob in sorted(zip(tree.paths, logprobs, strict=True), key=lambda it: len(it[0])):
        terms[path[-1]] = logprob - terms[path[:-1]].sum()
    return terms


class _Nodes(NamedTuple):
    """All nodes of a micro-batch; `place` indexes its packed tokens."""

    place: torch.Tensor
    slot: torch.Tensor
    token: torch.Tensor
    choices: list[Choices]
    row: list[int]
    """The row in the micro-batch of each judgment."""

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
    """The log-probability of each node of a micro-batch.

    `logits` are (1, packed tokens, vocabulary), or this rank's share with sequence parallelism.
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
    """Indices into this rank's share of the packed tokens; -1 for other ranks' tokens."""
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
    """The loss of a micro-batch's scored judgments, weighted by their rows' coefficients."""
    nodes = _Nodes.of(data, coefficient.device)
    if nodes is None:
        return coefficient.new_zeros(())
    table = torch.stack([outputs[NAME.format(i)].values() for i in range(nodes.slots)])
    factors = coefficient[nodes.row].tolist()
    terms = [
        replace(each.terms, coefficient=factor * each.terms.coefficient)
        for each, factor in zip(nodes.choices, factors, strict=True)
    ]
    value, _ = loss.surrogate_loss(table[nodes.slot, nodes.place], terms, low, high)
    return value
