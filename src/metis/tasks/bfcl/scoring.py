"""The reward of an episode, and the official checker's verdict.

A turn with a ground truth earns 1/2 for the right state, and 1/2 times the share of the ground
truth's results that were seen so far. A turn without calls earns nothing, and neither does an
unchanged state if no result is right, so that arbitrary calls do not pay. Results, and an unchanged
state, count less with many more calls than the ground truth has, so that calling every harmless
function pays little. A turn whose ground truth is empty requires abstention: a function or a value
is missing. The official verdict is all or nothing, without these rules.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Abstention = Literal["earned", "always", "ignored"]
SPARE_CALLS = 8
"""Calls of a turn beyond the ground truth's that have no penalty."""


@dataclass(frozen=True)
class Turn:
    """The outcome of a user's turn.

    abstain  the ground truth has no call
    called   the policy made calls, including refused ones
    same     the state equals the ground truth's
    matched  share of the ground truth's results that were seen
    idle     the state equals the ground truth's at the start of the turn
    focus    weight of results and of an unchanged state, below 1 with many more calls than the
             ground truth has
    garbled  the reply looked like calls but could not be parsed
    """

    abstain: bool
    called: bool
    same: bool = True
    matched: float = 1.0
    idle: bool = False
    focus: float = 1.0
    garbled: bool = False

    @property
    def score(self) -> float:
        if self.abstain:
            return float(not (self.called or self.garbled))
        if not self.called or (self.idle and not self.matched):
            return 0.0
        state = self.same * (self.focus if self.idle else 1.0)
        return 0.5 * state + 0.5 * self.matched * self.focus

    @property
    def valid(self) -> bool:
        """The official verdict on the turn."""
        return self.abstain or (self.called and self.same and self.matched == 1.0)


@dataclass
class Record:
    """The turns of an episode so far."""

    planned: Sequence[bool]
    """For each turn of the dialogue: True if it requires abstention."""
    turns: list[Turn] = field(default_factory=list)
    stuck: bool = False
    """True if the episode was ended for too many steps."""

    def reward(self, abstention: Abstention) -> float:
        """The mean over all turns of the dialogue; turns not reached count as 0.

        Turns of abstention count if another turn has a reward (`earned`), `always`, or never
        (`ignored`).
        """
        acting = [turn.score for turn in self.turns if not turn.abstain]
        abstaining = [turn.score for turn in self.turns if turn.abstain]
        count = len(self.planned)
        if abstention == "ignored":
            abstaining, count = [], count - sum(self.planned)
        elif abstention == "earned" and not any(acting):
            abstaining = []
        return (sum(acting) + sum(abstaining)) / count if count else 0.0

    @property
    def valid(self) -> bool:
        """The verdict of the official checker."""
        return (
            not self.stuck
            and len(self.turns) == len(self.planned)
            and all(turn.valid for turn in self.turns)
        )


def matched(expected: Sequence[Hashable], seen: Counter[Hashable]) -> float:
    """The share of the expected results that were seen, with multiplicity."""
    if not expected:
        return 1.0
    missing = Counter(expected) - seen
    return 1.0 - missing.total() / len(expected)


def focused(made: int, needed: int, spare: int) -> float:
    """The weight of results: 1 up to `spare` calls more than needed; `spare` = 0 is no limit."""
    return min(1.0, (needed + spare) / made) if made and spare else 1.0
