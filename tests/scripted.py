"""An engine that answers from tables, for curricula by hand."""

import numpy as np

from metis import Group, Prompt
from metis.core import Complete, Completion, Engine, Exemplar, Rollout, Score, Trajectory

PROMPTS = [Prompt(name, f"text of {name}") for name in "abcd"]
LETTERS = [Prompt(name, f"text of {name}") for name in "abcdefghijklmnopqrst"]

REPLIES = {
    "a": r"\boxed{0.12}",
    "b": r"\boxed{0.25}",
    "c": "I solve it: 37",
    "d": r"\boxed{0.02}",
}
PASSED = {"a": 1, "b": 3, "c": 4, "d": 8}
"""Of eight rollouts: variances of 7/64, 15/64, 1/4 and 0."""


def trajectory(length: int = 4) -> Trajectory:
    """What the policy wrote, in so many tokens."""
    mask = np.ones(length, dtype=bool)
    return Trajectory(np.arange(length), mask, np.zeros(length, np.float32), 0)


def passes(prompt: Prompt, k: int, n: int = 8) -> Group:
    """A group of which k rollouts pass."""
    rewards = (1.0,) * k + (0.0,) * (n - k)
    return Group(prompt, rewards, tuple(trajectory() for _ in rewards))


def alike(scale, value=-2.0):
    """The same log-probability for every answer of every prompt."""
    return {prompt.id: [value] * len(scale.choices) for prompt in LETTERS}


def exemplar(text: str, value: float) -> Exemplar:
    """An outcome that a judge is shown."""
    return Exemplar(Prompt(text, text), value, value, 1)


def asked_of(chat) -> str:
    """The candidate that a chat asks about."""
    return chat[-1]["content"].rsplit("text of ", 1)[1][0]


class Scripted(Engine):
    """Answers by the candidate's name: replies of five tokens, log-probabilities, passes.

    A reply of None did not fit the context.
    """

    def __init__(self, replies=None, passed=None, logprobs=None):
        self.replies, self.passed, self.logprobs = replies or {}, passed or {}, logprobs or {}
        self.asked = []

    def complete(self, chats, sampling):
        self.asked.append(Complete(chats, sampling))
        texts = [self.replies[asked_of(chat)] for chat in chats]
        return [
            Completion(text or "", trajectory(0 if text is None else 5), "stop") for text in texts
        ]

    def score(self, chats, choices):
        self.asked.append(Score(chats, choices))
        return [self.logprobs[asked_of(chat)] for chat in chats]

    def rollout(self, prompts, n):
        self.asked.append(Rollout(prompts, n))
        return [passes(prompt, self.passed[prompt.id], n) for prompt in prompts]
