"""Turns the choices of a chat into questions for a rollout server, and answers into scores.

A question is a branching node in the token tree of the choices: chat and path as the prompt, its
children as candidate next tokens. The stem (common prefix of all choices) is part of the prompt, so
that single-token choices need one question.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from metis.engines.tokens.choices import ChoiceTree
from metis.engines.verl.servers.in_server import MOST_TOKENS, Question


def questions(context: Sequence[int], tree: ChoiceTree) -> list[Question]:
    """The questions of one chat; the first is a prefix of all others."""
    return [
        Question([*context, *(tree.tokens[node] for node in path)], [tree.tokens[n] for n in part])
        for path, part in _parts(tree)
    ]


def choice_logprobs(tree: ChoiceTree, answers: Iterable[Sequence[float]]) -> list[float]:
    """The log-probability of each choice, given the stem."""
    logprobs = {
        node: value
        for (_, part), row in zip(_parts(tree), answers, strict=True)
        for node, value in zip(part, row, strict=True)
    }
    return [math.fsum(logprobs.get(node, 0.0) for node in path) for path in tree.paths]


def _parts(tree: ChoiceTree) -> Iterator[tuple[list[int], list[int]]]:
    """Each branching node's path and children, split to the maximum of a question."""
    for path, children in tree.branches:
        for start in range(0, len(children), MOST_TOKENS):
            yield path, children[start : start + MOST_TOKENS]


def in_waves(chats: Sequence[list[Question]]) -> list[list[Question]]:
    """One question first, then the first of every other chat: these fill the prefix cache."""
    first, *others = [asked[0] for asked in chats]
    return [[first], others, [question for asked in chats for question in asked[1:]]]


def by_chat(
    answers: Sequence[list[float]], chats: Sequence[list[Question]]
) -> list[list[list[float]]]:
    """Regroup the waves' answers by chat."""
    rest = iter(answers[len(chats) :])
    return [
        [first, *(next(rest) for _ in asked[1:])]
        for first, asked in zip(answers, chats, strict=False)
    ]
