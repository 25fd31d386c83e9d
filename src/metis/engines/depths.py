"""Depths of a network as its layers."""

from collections.abc import Sequence


def layers_at(depths: Sequence[float], count: int) -> list[int]:
    """The layer at each depth, from the first to the last of `count`."""
    return [max(1, round(depth * count)) for depth in depths]
