"""The rows of judgments that train, the same for every engine."""

import numpy as np

from letters import Letters
from metis import Prompt
from metis.core import Continuation, Judgment, Trajectory
from metis.engines.objective.judgments import judgment_rows

PROMPT = Prompt("p", "?")


def reply(advantage, written=2):
    mask = np.arange(5) >= 5 - written
    return Judgment(PROMPT, Trajectory(np.arange(5), mask, np.zeros(5, "f4"), 0), advantage)


def choices(chat, texts, advantages):
    said = [{"role": "user", "content": chat}]
    return [
        Judgment(PROMPT, Continuation(said, text, -1.0), advantage)
        for text, advantage in zip(texts, advantages, strict=True)
    ]


def test_replies_train_that_have_an_advantage_and_tokens():
    good = reply(-0.5)
    [rows] = judgment_rows(Letters(), [[reply(0.0), good, reply(0.5, written=0)]])
    assert [judgment for judgment, _ in rows.replies] == [good]
    assert rows.replies[0][1] is good.trajectory and rows.scored is None


def test_choices_stay_together_behind_their_judge_prompt():
    """One without an advantage is in the softmax all the same."""
    some, none = choices("ab", ("10", "12"), (0.5, 0.0)), choices("cd", ("10", "12"), (0.0, 0.0))
    last = choices("ef", ("10", "12"), (-1.0, 1.0))
    first, dropped, third = judgment_rows(Letters(), [[*some, reply(1.0)], none, last])
    assert [judgment for judgment, _ in first.scored.rows] == some
    assert first.scored.context == [ord("a"), ord("b")] and len(first.replies) == 1
    assert third.scored.context == [ord("e"), ord("f")]
    assert dropped.scored is None and not dropped.replies
    tree = first.scored.tree
    assert [[chr(tree.tokens[node]) for node in path] for path in tree.paths] == [
        ["1", "0"],
        ["1", "2"],
    ]
    assert len(tree.tokens) == 3, "what the choices begin with is one node"
    assert third.scored.tree is tree, "the same choices are one trie"


def test_judge_prompts_that_were_scored_are_not_encoded_again():
    rows, encoder = choices("ab", "12", (1.0, -1.0)), Letters()
    chat = rows[0].trajectory.chat
    encoder.scored = {id(chat): (chat, [1, 2, 3])}
    [judged] = judgment_rows(encoder, [rows])
    assert judged.scored.context == [1, 2, 3]
