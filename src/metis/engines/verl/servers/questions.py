"""Choices as questions to a rollout server, and its answers as log-probabilities of the choices.

A question is a place in the token tree of the choices: the chat and the tokens so far, with all
tokens that may follow. The stem, what all choices begin with, is part of the chat, so that a scale
of one token is one question, and the values of `\\boxed{0.25` are as many as have a first digit,
and one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from metis.engines.tokens.choices import ChoiceTree
from metis.engines.verl.servers.in_server import MOST_TOKENS, Question


def questions(context: Sequence[int], tree: ChoiceTree) -> list[Question]:
    """All that has to be known of one chat; the first question has what all others share."""
    return [
        Question([*context, *(tree.tokens[node] for node in path)], [tree.tokens[n] for n in part])
        for path, part in _parts(tree)
    ]


def scores(tree: ChoiceTree, answers: Iterable[Sequence[float]]) -> list[float]:
    """The log-probability of each choice, given the stem."""
    logprobs = {
        node: value
        for (_, part), row in zip(_parts(tree), answers, strict=True)
        for node, value in zip(part, row, strict=True)
    }
    return [math.fsum(logprobs.get(node, 0.0) for node in path) for path in tree.paths]


def _parts(tree: ChoiceTree) -> Iterator[tuple[list[int], list[int]]]:
    """A node with more children than a question may have takes several."""
    for path, children in tree.branches:
        for start in range(0, len(children), MOST_TOKENS):
            yield path, children[start : start + MOST_TOKENS]


def in_waves(chats: Sequence[list[Question]]) -> list[list[Question]]:
    """One question ahead of all, then the first of each other chat: both fill the prefix cache."""
    first, *others = [asked[0] for asked in chats]
    return [[first], others, [question for asked in chats for question in asked[1:]]]


def by_chat(
    answers: Sequence[list[float]], chats: Sequence[list[Question]]
) -> list[list[list[float]]]:
    """Answers to waves, as the chats had asked."""
    rest = iter(answers[len(chats) :])
    return [
        [first, *(next(rest) for _ in asked[1:])]
        for first, asked in zip(answers, chats, strict=False)
    ]
