"""The pool under its public name: see `metis.core.pool`."""

from metis.core.pool import Pool, Rewards, Stream, Subset

__all__ = ["Pool", "Rewards", "Stream", "Subset"]
