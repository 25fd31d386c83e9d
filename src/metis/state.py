"""Saved state under its public name: see `metis.core.state`."""

from metis.core.state import Stateful, load, save

__all__ = ["Stateful", "load", "save"]
