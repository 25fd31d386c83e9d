"""Batched tokenization of chats; a shared prefix is rendered and tokenized once."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol

from metis.core import Chat, Message
from metis.errors import MetisError

REMEMBERED = 1 << 23
"""Size of the cache of tokenized ends of chats, in characters."""


class Encoder(Protocol):
    """A tokenizer of chats, with caches."""

    tokenizer: Any
    separators: list[str]
    """Added tokens, at which the tokenizer always splits a text."""
    ends: dict[str, list[int]]
    """A cache of tokenized ends of chats."""
    scored: dict[int, tuple[Chat, list[int]]]
    """Tokens of the chats of the last `score` call, by identity, to reuse in training."""

    def encode_chat(self, chat: Chat) -> list[int]: ...

    def encode_reply(self, text: str) -> list[int]: ...

    def render(self, chat: Chat) -> str: ...


def separators(tokenizer: Any) -> list[str]:
    """The added tokens, special or not, which include those of the chat template.

    Tokens with rstrip or single_word are left out: text after them is not tokenized independently.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return [str(token) for token in added if not (token.rstrip or token.single_word)]


def encode_chats(encoder: Encoder, chats: Sequence[Chat]) -> list[list[int]]:
    """The tokens of every chat, equal to `encode_chat` of each.

    Text after a separator is tokenized independently, so the shared prefix, up to its last
    separator, is tokenized once. The shortest and the longest chat are verified.
    """
    if len(chats) < 3 or not _alike(chats):
        return [encoder.encode_chat(chat) for chat in chats]
    mark = unused_mark(chats[0][:-1])
    marked: Chat = [*chats[0][:-1], {**chats[0][-1], "content": mark}]
    head, found, tail = encoder.render(marked).partition(mark)
    cut = _boundary(encoder, head)
    if not found or not cut:
        return [encoder.encode_chat(chat) for chat in chats]
    texts = [head[cut:] + chat[-1]["content"] + tail for chat in chats]
    shared: list[int] = encoder.tokenizer(head[:cut], add_special_tokens=False)["input_ids"]
    encoded = [shared + end for end in _ends(encoder, texts)]
    sizes = [len(text) for text in texts]
    for i in (sizes.index(min(sizes)), sizes.index(max(sizes))):
        if encoded[i] != encoder.encode_chat(chats[i]):
            return [encoder.encode_chat(chat) for chat in chats]
    return encoded


def encode_to_score(encoder: Encoder, chats: Sequence[Chat]) -> list[list[int]]:
    """Like `encode_chats`, and keep the tokens until the next `score` call."""
    contexts = encode_chats(encoder, chats)
    encoder.scored = {
        id(chat): (chat, context) for chat, context in zip(chats, contexts, strict=True)
    }
    return contexts


def encode_scored(encoder: Encoder, chats: Sequence[Chat]) -> list[list[int]]:
    """Like `encode_chats`, reusing the last `score` call's tokens."""
    entries = [encoder.scored.get(id(chat)) for chat in chats]
    if None in entries:
        return encode_chats(encoder, chats)
    return [tokens for _, tokens in filter(None, entries)]


def unused_mark(chat: Chat) -> str:
    """A placeholder for a message in a rendered template, which the chat does not contain."""
    marks = (f"\u2402METIS{number}\u2403" for number in count())
    return next(mark for mark in marks if not any(mark in message["content"] for message in chat))


def between_turns(
    render: Callable[[Chat], str], chat: Chat, answers: Sequence[Message], ends: Iterable[str]
) -> str:
    """The text between the assistant's answer to `chat` and its next turn.

    `ends` are the end-of-turn tokens that the answer already has; none if it was truncated. Lone
    surrogates, which no tokenizer encodes, become question marks: otherwise a policy could make its
    rollouts fail by having an environment echo them.
    """
    mark = unused_mark([*chat, *answers])
    spoken: list[Message] = [*chat, {"role": "assistant", "content": mark}, *answers]
    before, found, after = render(spoken).partition(mark)
    if not found or before.rstrip() != render(chat).rstrip():
        raise MetisError(
            "the chat template rewrites earlier turns, so that a multi-turn rollout cannot be "
            "trained on: use a template that only appends"
        )
    for end in ends:
        after = after.removeprefix(end)
    return after.encode("utf-8", "replace").decode()


def _ends(encoder: Encoder, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of texts, cached, since prompts are judged repeatedly."""
    new = [text for text in dict.fromkeys(texts) if text not in encoder.ends]
    ends = encoder.ends
    if new:
        tokens = encoder.tokenizer(new, add_special_tokens=False)["input_ids"]
        ends = encoder.ends | dict(zip(new, tokens, strict=True))
        if sum(map(len, ends)) <= REMEMBERED:
            encoder.ends = ends
        else:
            encoder.ends = {}
    return [ends[text] for text in texts]


def _alike(chats: Sequence[Chat]) -> bool:
    """True if the chats differ only in the last message, which has no whitespace to strip."""
    first = chats[0]
    return all(
        len(chat) == len(first)
        and chat[:-1] == first[:-1]
        and chat[-1]["content"] == chat[-1]["content"].strip()
        for chat in chats
    )


def _boundary(encoder: Encoder, text: str) -> int:
    """The end of the last separator of a text; 0 if there is none."""
    ends = [text.rfind(token) + len(token) for token in encoder.separators if token in text]
    return max(ends, default=0)
