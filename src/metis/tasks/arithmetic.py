"""Sums of graded difficulty, made on the spot: the task of the quickstart.

Levels are categories: level k has sums of two numbers with k + 1 digits between them, from one
digit each to eight. Levels far beyond a model give all-fail prompts in any share. The answer is the
last number of a reply, so that a small model needs no format to earn its first rewards.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from metis.core import Message, Prompt
from metis.errors import MetisError, require, require_at_least
from metis.tasks.base import SingleTurn, Split, last_number

DIGITS = {level: ((level + 2) // 2, (level + 1) // 2) for level in range(1, 16)}
"""Digits of the two numbers at each level."""


@dataclass(frozen=True)
class Arithmetic:
    """Settings of the arithmetic task.

    prompts         number of training problems
    heldout         number of held-out problems, without overlap
    levels          levels of difficulty, from 1 to 15
    shares          relative share of each level in the training set; by default equal
    heldout_shares  the same for the held-out problems; empty is `shares`
    instruction     text after the question
    examples        number of solved problems (other ones) that every chat begins with
    """

    prompts: int = 600
    heldout: int = 200
    levels: tuple[int, ...] = (1, 2, 3)
    shares: tuple[float, ...] = ()
    heldout_shares: tuple[float, ...] = ()
    instruction: str = ""
    examples: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, {"prompts": 1, "heldout": 1, "examples": 0}, "task.")
        distinct = set(self.levels)
        require(
            distinct <= set(DIGITS) and len(distinct) == len(self.levels) > 0,
            "task.levels",
            list(self.levels),
            f"use different levels from 1 to {max(DIGITS)}",
        )
        counts, heldout = (0, len(self.levels)), self.heldout_shares
        require(
            len(self.shares) in counts and all(0 < s < 1e9 for s in self.shares),
            "task.shares",
            list(self.shares),
            f"use a number above 0 for each of the {len(self.levels)} levels, or none",
        )
        require(
            len(heldout) in counts and all(0 <= s < 1e9 for s in heldout) and any(heldout or (1,)),
            "task.heldout_shares",
            list(heldout),
            f"use a number for each of the {len(self.levels)} levels, not all 0, or none",
        )


class ArithmeticTask(Split):
    """Problems with their answers; the same seed makes the same ones."""

    rewards: Literal["binary"] = "binary"
    scorer = "the last number equals the sum"

    def __init__(self, settings: Arithmetic, seed: int) -> None:
        self.settings = settings
        self.answers: dict[str, int] = {}
        rng = random.Random(seed)
        count = settings.prompts + settings.heldout
        most = count + settings.examples
        left = {level: _sums(level, rng, most) for level in settings.levels}
        self.shown = self._problems(settings.examples, settings.shares, left, rng)
        if settings.heldout_shares:
            self._heldout = self._problems(settings.heldout, settings.heldout_shares, left, rng)
            self._training = self._problems(settings.prompts, settings.shares, left, rng)
        else:
            problems = self._problems(count, settings.shares, left, rng)
            self._heldout = problems[: settings.heldout]
            self._training = problems[settings.heldout :]

    def _problems(
        self,
        count: int,
        shares_of_levels: Sequence[float],
        left: dict[int, list[tuple[int, int]]],
        rng: random.Random,
    ) -> list[Prompt]:
        """Distinct problems, levels in turn by their shares as long as they have any left."""
        shares = dict(zip(left, shares_of_levels or (1.0,) * len(left), strict=True))
        taken = dict.fromkeys(left, 0)
        problems: list[Prompt] = []
        while len(problems) < count:
            behind = [level for level in left if left[level] and shares[level]]
            if not behind:
                levels = [level for level in left if shares[level]]
                raise MetisError(
                    f"{self._wanted()}: the levels {levels} have only {len(self.answers)} "
                    "different problems"
                )
            level = min(behind, key=lambda level: taken[level] / shares[level])
            taken[level] += 1
            a, b = left[level].pop()
            prompt = Prompt(f"arithmetic:{a}+{b}", f"What is {a} + {b}?", f"level-{level}")
            self.answers[prompt.id] = a + b
            problems.append(prompt)
        rng.shuffle(problems)
        return problems

    def _wanted(self) -> str:
        settings = self.settings
        examples = " + task.examples" if settings.examples else ""
        count = settings.prompts + settings.heldout + settings.examples
        return f"task.prompts + task.heldout{examples} = {count}"

    def episode(self, prompt: Prompt) -> SingleTurn:
        answer = self.answers[prompt.id]
        chat = [turn for shown in self.shown for turn in self._solved(shown)]
        chat.append(self._question(prompt))
        return SingleTurn(chat, lambda reply: float(last_number(reply) == answer), str(answer))

    def _question(self, prompt: Prompt) -> Message:
        return {"role": "user", "content": f"{prompt.text} {self.settings.instruction}".strip()}

    def _solved(self, prompt: Prompt) -> list[Message]:
        """The question, and its answer as an equation: a small model adds better that way."""
        equation = f"{prompt.id.removeprefix('arithmetic:').replace('+', ' + ')} = "
        reply: Message = {"role": "assistant", "content": f"{equation}{self.answers[prompt.id]}"}
        return [self._question(prompt), reply]


def _sums(level: int, rng: random.Random, most: int) -> list[tuple[int, int]]:
    """Different pairs of numbers of a level, in random order."""
    ranges = [
        range(10 ** (digits - 1) if digits > 1 else 0, 10**digits) for digits in DIGITS[level]
    ]
    if len(ranges[0]) * len(ranges[1]) <= 2 * most:
        pairs = [(a, b) for a in ranges[0] for b in ranges[1]]
        rng.shuffle(pairs)
        return pairs
    drawn: dict[tuple[int, int], None] = {}
    while len(drawn) < most:
        drawn[rng.choice(ranges[0]), rng.choice(ranges[1])] = None
    return list(drawn)


def build(settings: Arithmetic, seed: int) -> ArithmeticTask:
    """The task for a run's seed."""
    return ArithmeticTask(settings, seed)
