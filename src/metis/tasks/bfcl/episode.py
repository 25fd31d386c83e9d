"""An episode of function calling: a user's turns, calls on simulated APIs, and the reward.

A user's turn lasts until the policy replies without a call. Then the turn's ground truth is
executed on separate instances of the APIs, and the two states are compared.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cached_property

from metis.core import Chat, Message
from metis.tasks.bfcl import calls, wording
from metis.tasks.bfcl.calls import ApiCall, RefusedCall
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.scoring import SPARE_CALLS, Abstention, Record, Turn, focused, matched
from metis.tasks.bfcl.world import World

OFFICIAL_STEPS = 20
"""Maximum steps of a turn in the official handler."""


class Episode:
    """One rollout of a dialogue."""

    scorer = "function calling: state and results of every turn"

    def __init__(
        self,
        dialogue: Dialogue,
        steps: int = OFFICIAL_STEPS,
        output: int = 4000,
        abstention: Abstention = "earned",
        spare_calls: int = SPARE_CALLS,
    ) -> None:
        self.dialogue, self.steps, self.output = dialogue, steps, output
        self.abstention: Abstention = abstention
        self.spare_calls = spare_calls
        self.record = Record([not truth for truth in dialogue.truth])
        self.results: Counter[Hashable] = Counter()
        self.turn, self.step, self.made, self.garbled = 0, 0, 0, False

    @property
    def chat(self) -> Chat:
        return self.dialogue.chat

    @cached_property
    def world(self) -> World:
        """The APIs that the policy calls."""
        return self.dialogue.world()

    @cached_property
    def right(self) -> World:
        """The same APIs, on which the ground truth is executed."""
        return self.dialogue.world()

    def tests(self) -> str:
        """The calls of the ground truth, one line per turn."""
        return "\n".join("; ".join(turn) or "no call" for turn in self.dialogue.truth)

    def reply(self, text: str) -> Sequence[Message] | None:
        """The results of the policy's calls, or the user's next turn; None at the end."""
        self.step += 1
        try:
            written = calls.read(text)
        except Exception as error:  # Unreadable, or what a reading that is wrong raises
            self.garbled = True
            said = str(error) if isinstance(error, calls.Unreadable) else "it cannot be read"
            return self._go_on(f"Error: {said}")
        if not written:
            return self._next_turn()
        outputs = self.make(written)
        names = [call.name if isinstance(call, ApiCall) else "call" for call in written]
        return self._go_on(wording.results(names, outputs, self.output))

    def make(self, written: Sequence[ApiCall | RefusedCall]) -> list[str]:
        """Execute calls of the current turn; returns their results, not truncated."""
        withheld = self.dialogue.withheld(self.turn)
        outputs = self.world.make(written, withheld)
        self.made += len(written)
        self.results.update(map(_digest, outputs))
        return outputs

    def _go_on(self, content: str) -> Sequence[Message] | None:
        """The message after a step; None if the turn has too many."""
        if self.step > self.steps:
            self.record.stuck = True
            return None
        return [{"role": "user", "content": content}]

    def _next_turn(self) -> Sequence[Message] | None:
        self.end_turn()
        if self.turn == len(self.dialogue.questions):
            return None
        return [{"role": "user", "content": self.dialogue.said(self.turn)}]

    def end_turn(self) -> None:
        """Execute the turn's ground truth, and compare."""
        truth, called = self.dialogue.solution[self.turn], self.made > 0
        if truth:
            idle = self.world.equals(self.right)
            expected = [_digest(self.right.call(call)) for call in truth]
            same, share = self.world.equals(self.right), matched(expected, self.results)
            focus = focused(self.made, len(truth), self.spare_calls)
            self.record.turns.append(Turn(False, called, same, share, idle, focus))
        else:
            self.record.turns.append(Turn(True, called, garbled=self.garbled))
        self.turn, self.step, self.made, self.garbled = self.turn + 1, 0, 0, False

    def reward(self) -> dict[str, float]:
        """The reward; also the official verdict, and the share of turns reached.

        An unfinished turn is scored as it is.
        """
        if self.made:
            self.end_turn()
        planned = len(self.record.planned)
        return {
            "score": self.record.reward(self.abstention),
            "official": float(self.record.valid),
            "turns": len(self.record.turns) / planned,
        }


def _digest(result: str) -> bytes:
    """A hash of a result, which may be long and is only compared."""
    return hashlib.blake2b(result.encode("utf-8", "surrogatepass"), digest_size=16).digest()
