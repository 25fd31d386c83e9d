"""Hidden states of prompts: the layers at given depths, and sequences padded on the right.

A causal model does not look there.
"""

from collections.abc import Sequence

import torch


def layers_at(depths: Sequence[float], count: int) -> list[int]:
    """The layer at each depth, from the first to the last of `count`."""
    return [max(1, round(depth * count)) for depth in depths]


def padded(sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences as rows of one length, and how long each is."""
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    tokens = torch.zeros(len(sequences), int(sizes.max()), dtype=torch.long)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence)
    return tokens, sizes
