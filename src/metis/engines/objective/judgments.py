"""The rows of judgments that train: sampled replies, or scored choices as a token trie."""

from collections.abc import Sequence
from typing import NamedTuple

from metis.core import Continuation, Judgment, Trajectory
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.encoding import Encoder, encode_scored


class ScoredChoices(NamedTuple):
    """A judge prompt in tokens, and the trie of the choices that follow it."""

    context: list[int]
    tree: ChoiceTree
    rows: list[tuple[Judgment, Continuation]]


class JudgmentRows(NamedTuple):
    """The sampled replies of a judgment, and its scored choices (None without any)."""

    replies: list[tuple[Judgment, Trajectory]]
    scored: ScoredChoices | None


def judgment_rows(encoder: Encoder, judgments: Sequence[Sequence[Judgment]]) -> list[JudgmentRows]:
    """The rows of each judgment that have an advantage and tokens to train on."""
    choices = [_choices(rows) for rows in judgments]
    scored = iter(_encoded(encoder, [rows for rows in choices if rows]))
    return [
        JudgmentRows(_replies(rows), next(scored) if own else None)
        for rows, own in zip(judgments, choices, strict=True)
    ]


def _replies(rows: Sequence[Judgment]) -> list[tuple[Judgment, Trajectory]]:
    return [
        (row, row.trajectory)
        for row in rows
        if isinstance(row.trajectory, Trajectory)
        and row.advantage
        and row.trajectory.loss_mask[1:].any()
    ]


def _choices(rows: Sequence[Judgment]) -> list[tuple[Judgment, Continuation]]:
    """All choices of a judgment, since they are one softmax; none if no advantage is left."""
    choices = [(row, row.trajectory) for row in rows if isinstance(row.trajectory, Continuation)]
    return choices if any(row.advantage for row, _ in choices) else []


def _encoded(
    encoder: Encoder, scored: Sequence[list[tuple[Judgment, Continuation]]]
) -> list[ScoredChoices]:
    trees: dict[tuple[str, ...], ChoiceTree] = {}
    contexts = encode_scored(encoder, [rows[0][1].chat for rows in scored])
    made = []
    for rows, context in zip(scored, contexts, strict=True):
        texts = tuple(choice.text for _, choice in rows)
        if texts not in trees:
            trees[texts] = ChoiceTree.of([encoder.encode_reply(text) for text in texts])
        made.append(ScoredChoices(context, trees[texts], rows))
    return made
