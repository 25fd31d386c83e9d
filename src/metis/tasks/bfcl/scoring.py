"""The reward of an episode, and the verdict of the official checker beside it.

A turn with a ground truth earns half for its state and half for the share of the ground truth's
results that are among the results so far. A state that nobody changed earns nothing beside results
of which none is right, so that a call of whatever kind does not pay; nor does a turn without any
call. Results, and a state that nobody changed, count less the more calls a turn has beyond those of
the ground truth, so that calling everything that is harmless pays little. A turn whose ground truth
is empty is one to abstain from calls: a function or a value is missing. The official verdict is all
or nothing, and looks at neither.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Abstention = Literal["earned", "always", "ignored"]
SPARE_CALLS = 8
"""Calls of a turn beyond the ground truth's that cost nothing."""


@dataclass(frozen=True)
class Turn:
    """The outcome of a user's turn.

    abstain  the ground truth has no call
    called   calls were written, also such as were refused
    same     the state is that of the ground truth
    matched  share of the ground truth's results that were seen
    idle     the state is the one in which the ground truth began the turn
    focus    how much results count, and a state that nobody changed: less than 1 in a turn of many
             more calls than the ground truth has
    garbled  calls were meant that cannot be read
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
    """The turns of an episode so far; `planned` is how many the dialogue has."""

    planned: Sequence[bool]
    """For each turn of the dialogue: True where it is one to abstain from calls."""
    turns: list[Turn] = field(default_factory=list)
    stuck: bool = False
    """True where the episode was ended for its many steps."""

    def reward(self, abstention: Abstention) -> float:
        """The mean over all turns of the dialogue; those that were not reached earn nothing.

        Abstention counts only where another turn earned something (`earned`), `always`, or not at
        all (`ignored`).
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
    """The share of the expected results that were seen, each as often as it is expected."""
    if not expected:
        return 1.0
    missing = Counter(expected) - seen
    return 1.0 - missing.total() / len(expected)


def focused(made: int, needed: int, spare: int) -> float:
    """The weight of results: in full up to `spare` calls more than are needed; 0 is no bound."""
    return min(1.0, (needed + spare) / made) if made and spare else 1.0
