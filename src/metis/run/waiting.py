"""Channels to a person who waits: a line before something long, a count while it goes on."""

from collections.abc import Callable

Say = Callable[[str], None]
"""Takes a line."""

Count = Callable[[int, int], object]
"""Takes how many are done, of how many; may be called from any thread."""


def uncounted(done: int, total: int) -> None:
    """For whoever does not watch."""
