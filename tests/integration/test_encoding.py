"""Chats that are encoded together get the tokens that each would get by itself."""

import pytest
from tokenizers import AddedToken

from metis.curricula.judges.prompt import turns
from metis.engines.tokens.encoding import encode_chats, separators
from metis.engines.tokens.packing import common_prefix
from scripted import exemplar

EXAMPLES = [exemplar("What is 1 + 2?", 0.0), exemplar("What is 12 + 2?", 0.1)]
CHATS = turns([f"What is {a} + 2?" for a in (1, 23, 567, 8910)], EXAMPLES)
TURNS = "{% for m in messages %}<turn>{{ m.content }}{% endfor %}<turn>"


def test_encoding_many_chats_equals_one_by_one(policy):
    assert encode_chats(policy, CHATS) == [policy.encode_chat(chat) for chat in CHATS]
    spaced = [[{"role": "user", "content": f" {i} \n"}] for i in range(3)]
    assert encode_chats(policy, spaced) == [policy.encode_chat(chat) for chat in spaced]
    assert common_prefix(encode_chats(policy, CHATS)) > 200


def test_ends_of_chats_are_encoded_once_and_forgotten_when_there_are_many(policy, monkeypatch):
    wanted = [policy.encode_chat(chat) for chat in CHATS]
    encode_chats(policy, CHATS)
    assert len(policy.ends) == len(CHATS)
    found = encode_chats(policy, CHATS)
    found[0].append(0)
    assert encode_chats(policy, CHATS) == wanted
    monkeypatch.setattr("metis.engines.tokens.encoding.REMEMBERED", 1)
    policy.ends = {}
    assert encode_chats(policy, CHATS) == wanted
    assert not policy.ends


@pytest.mark.parametrize(
    ("added", "alone"),
    [
        (AddedToken("<turn>", special=False, normalized=False), 2),
        (AddedToken("<turn>", special=True), 2),
        (AddedToken("<turn>", special=True, rstrip=True), len(CHATS)),
        (AddedToken("<turn>", special=True, single_word=True), len(CHATS)),
    ],
)
def test_what_chats_share_ends_at_an_added_token_called_special_or_not(policy, added, alone):
    policy.tokenizer.add_tokens([added], special_tokens=added.special)
    policy.tokenizer.chat_template = TURNS
    policy.separators = separators(policy.tokenizer)
    wanted = [policy.encode_chat(chat) for chat in CHATS]
    encoded = []
    one = policy.encode_chat
    policy.encode_chat = lambda chat: encoded.append(chat) or one(chat)
    assert encode_chats(policy, CHATS) == wanted
    assert len(encoded) == alone
