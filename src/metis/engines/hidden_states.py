"""Helpers for hidden states: layers at given depths, and right-padding."""

from collections.abc import Sequence

import torch


def layers_at(depths: Sequence[float], count: int) -> list[int]:
    """The layer at each depth (a fraction), from 1 to `count`."""
    return [max(1, round(depth * count)) for depth in depths]


def padded(sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Right-pad sequences to one length; returns tokens and lengths."""
    sizes = torch.tensor([len(sequence) for sequence in sequences])
    tokens = torch.zeros(len(sequences), int(sizes.max()), dtype=torch.long)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence)
    return tokens, sizes
