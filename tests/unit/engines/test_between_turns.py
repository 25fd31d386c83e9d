"""The text between two turns of a policy, whatever was said in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metis.engines.tokens.encoding import between_turns, unused_mark
from metis.errors import MetisError

MARK = unused_mark([])
SAID = st.lists(st.sampled_from([MARK, MARK[:-1], MARK[1:], "0", "1", "a"])).map("".join)


def user(content):
    return {"role": "user", "content": content}


def render(chat):
    return "".join(f"<{said['role']}>{said['content']}</>" for said in chat) + "<assistant>"


@given(SAID, SAID, SAID)
def test_a_chat_may_contain_what_stands_for_a_message(asked, said, answer):
    chat = [user(asked), {"role": "assistant", "content": said}, user("and?")]
    found = between_turns(render, chat, [user(answer)], ends=["</>"])
    assert found == f"<user>{answer}</><assistant>"


@pytest.mark.parametrize("said", ["a\ud800b", "\udfff", "\udc00\ud800", "caf\u00e9 \U0001f600"])
def test_a_lone_surrogate_reaches_no_tokenizer(said):
    found = between_turns(render, [user("a")], [user(said)], ends=["</>"])
    assert found == f"<user>{said.encode('utf-8', 'replace').decode()}</><assistant>"
    assert found.encode()


def test_a_lone_surrogate_of_an_earlier_turn_stops_no_later_one():
    chat = [user("a"), {"role": "assistant", "content": "b"}, user("\ud800")]
    assert between_turns(render, chat, [user("c")], ends=["</>"]) == "<user>c</><assistant>"


def test_a_template_that_rewrites_earlier_turns_is_refused():
    with pytest.raises(MetisError, match="rewrites earlier turns"):
        between_turns(lambda chat: f"{len(chat)} {render(chat)}", [user("a")], [user("b")], [])
