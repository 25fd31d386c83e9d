"""Choices as questions: a token tree taken apart and put together again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.engines.tokens.choices import ChoiceTree
from metis.engines.verl.servers.in_server import MOST_TOKENS, Question
from metis.engines.verl.servers.questions import by_chat, choice_logprobs, in_waves, questions

replies = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple),
    min_size=1,
    max_size=9,
    unique=True,
)


def logprob(prompt, token):
    """Some number for every token after every prompt."""
    return -math.sqrt(1 + hash((*prompt, token)) % 97)


@given(replies=replies, stem=st.lists(st.integers(0, 3), max_size=3))
def test_scores_are_those_of_the_whole_choices_but_for_a_common_term(replies, stem):
    context, whole = [9, 8], [(*stem, *reply) for reply in replies]
    tree = ChoiceTree.of(whole)
    asked = questions(context, tree)
    found = choice_logprobs(tree, [[logprob(q.prompt, token) for token in q.tokens] for q in asked])
    expected = [
        math.fsum(logprob((*context, *reply[:i]), token) for i, token in enumerate(reply))
        for reply in whole
    ]
    left_out = [whole - mine for whole, mine in zip(expected, found, strict=True)]
    assert left_out == pytest.approx([left_out[0]] * len(left_out))
    assert len({tuple(question.prompt) for question in asked}) == len(asked)
    first = asked[0].prompt
    assert first[: 2 + len(stem)] == [*context, *stem]
    assert all(question.prompt[: len(first)] == first for question in asked)


@given(replies=replies)
def test_sequences_hold_every_inner_path_and_none_twice(replies):
    tree = ChoiceTree.of(replies)
    inner = {tuple(tree.path(node)) for node in tree.inner}
    found = [tuple(path) for path in tree.sequences]
    assert {path[: i + 1] for path in found for i in range(len(path))} == inner
    for i, path in enumerate(found):
        assert not any(other[: len(path)] == path for j, other in enumerate(found) if j != i)
    assert tree.room(math.inf) == math.inf


def test_a_node_of_many_children_takes_several_questions():
    tree = ChoiceTree.of([[i] for i in range(2 * MOST_TOKENS + 1)])
    asked = questions([7], tree)
    assert [len(question.tokens) for question in asked] == [MOST_TOKENS, MOST_TOKENS, 1]
    assert choice_logprobs(
        tree, [[float(token) for token in question.tokens] for question in asked]
    ) == [float(i) for i in range(2 * MOST_TOKENS + 1)]


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_waves_come_back_as_they_were_asked(sizes):
    chats = [[Question([i], [i, j]) for j in range(size)] for i, size in enumerate(sizes)]
    waves = in_waves(chats)
    assert waves[0] == [chats[0][0]]
    answers = [[float(token) for token in question.tokens] for wave in waves for question in wave]
    assert by_chat(answers, chats) == [
        [[float(i), float(j)] for j in range(size)] for i, size in enumerate(sizes)
    ]
