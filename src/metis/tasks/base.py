"""Tasks as engines see them: prompts, and an episode for every rollout of one."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, SupportsFloat

from metis.core import Chat, Message, Prompt
from metis.core.pool import Rewards

Reward = SupportsFloat | Mapping[str, Any]
"""A number in [0, 1], or a mapping with it as `score` and what else should be logged."""


class Episode(Protocol):
    """One rollout: messages in, messages out, a reward in [0, 1] at the end. Used once."""

    @property
    def chat(self) -> Chat:
        """The chat that the policy answers first."""
        ...

    def reply(self, text: str) -> Sequence[Message] | None:
        """The environment's answer to the policy's turn; None when the episode is over."""
        ...

    def reward(self) -> Reward | Awaitable[Reward]:
        """The reward of the whole episode; called once, after it is over."""
        ...


class Task(Protocol):
    """Training prompts, disjoint test prompts, and how answers are scored."""

    @property
    def rewards(self) -> Rewards: ...

    def training(self) -> Sequence[Prompt]: ...

    def heldout(self) -> Sequence[Prompt]: ...

    def episode(self, prompt: Prompt) -> Episode: ...


class Split:
    """The training and the test prompts of a task that holds them."""

    _training: Sequence[Prompt]
    _heldout: Sequence[Prompt]

    def training(self) -> Sequence[Prompt]:
        return self._training

    def heldout(self) -> Sequence[Prompt]:
        return self._heldout


@dataclass
class SingleTurn:
    """A single-turn episode: one question, one answer, one score.

    `reference` is for who reads along, and so are `tests`, which write down the tests of an answer
    where there are some; `scorer` names what scores.
    """

    chat: Chat
    score: Callable[[str], Reward | Awaitable[Reward]]
    reference: str = ""
    scorer: str = "the reward"
    tests: Callable[[], str] | None = None
    answer: str = field(init=False, default="")

    def reply(self, text: str) -> None:
        self.answer = text

    def reward(self) -> Reward | Awaitable[Reward]:
        return self.score(self.answer)


def expected(task: Task | None, prompt: Prompt) -> str:
    """The reference answer or the tests of an episode, for display, if the task names them."""
    try:
        episode = task.episode(prompt) if task else None
        tests = getattr(episode, "tests", None)
        return tests() if callable(tests) else str(getattr(episode, "reference", ""))
    except Exception:  # a task of one's own: what is wrong with it is said where it is played
        return ""


class ProblemRow(NamedTuple):
    """A row of a file as a problem: its prompt, the chat that asks it, and its reference answer.

    The answer is None where the reward needs none.
    """

    prompt: Prompt
    chat: Chat
    answer: str | None


ReadRow = Callable[[int, dict[str, Any]], ProblemRow]
"""Reads a row by its number, from 1, and its fields."""


def takes_turns(task: Task) -> bool:
    """True of a task whose episodes may have more than one question and answer."""
    return any(not isinstance(task.episode(prompt), SingleTurn) for prompt in task.training()[:1])


def scorers(task: Task) -> int | None:
    """The number of rewards that a task can score at a time; None where it does not say.

    A task says so with a method of this name, which refuses where nothing can be scored.
    """
    own: Callable[[], int | None] | None = getattr(task, "scorers", None)
    return None if own is None else own()


def notices(task: Task) -> Sequence[str]:
    """A task's notices to the user: its attribute `notices`, if it has one."""
    found: Sequence[str] = getattr(task, "notices", ())
    return found


_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


def last_number(text: str) -> float | None:
    """The last number in a text, thousands separators allowed."""
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None
