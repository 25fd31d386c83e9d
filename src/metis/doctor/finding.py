"""A finding of `metis doctor`: a part of the machine, its state, and what mends it."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "broken"]
"""Works; is not there, which only matters to those who want it; is there and does not work."""


@dataclass(frozen=True)
class Finding:
    name: str
    state: State
    found: str
    """What is there, in a few words."""
    use: str = ""
    """What an absent or broken part is needed for."""
    remedy: str = ""
    """The command that mends it."""


def ok(name: str, found: str) -> Finding:
    return Finding(name, "ok", found)
