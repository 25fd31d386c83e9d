"""Many chats into tokens at once: the template runs once for what they share."""

from collections.abc import Sequence

from metis.core import Chat
from metis.engines.local.policy import Policy

MARK = "\u2402METIS\u2403"
"""Stands for the last message while the template is rendered; no prompt contains it."""


def encode_chats(policy: Policy, chats: Sequence[Chat]) -> list[list[int]]:
    """The tokens of every chat, the same as `Policy.encode_chat` gives one by one."""
    if len(chats) < 2 or not _alike(chats):
        return [policy.encode_chat(chat) for chat in chats]
    head, mark, tail = _render(policy, [*chats[0][:-1], {**chats[0][-1], "content": MARK}])
    texts = [head + chat[-1]["content"] + tail for chat in chats]
    if not mark or texts[-1] != "".join(_render(policy, chats[-1])):
        return [policy.encode_chat(chat) for chat in chats]
    encoded: list[list[int]] = policy.tokenizer(texts, add_special_tokens=False)["input_ids"]
    return encoded


def _alike(chats: Sequence[Chat]) -> bool:
    first = chats[0]
    return all(
        len(chat) == len(first)
        and chat[:-1] == first[:-1]
        and chat[-1]["content"] == chat[-1]["content"].strip()
        for chat in chats
    )


def _render(policy: Policy, chat: Chat) -> tuple[str, str, str]:
    text: str = policy.tokenizer.apply_chat_template(
        list(chat), add_generation_prompt=True, tokenize=False
    )
    return text.partition(MARK)
