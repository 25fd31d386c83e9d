"""Many chats into tokens at once: what they share is rendered and encoded once."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol

from metis.core import Chat, Message
from metis.errors import MetisError

REMEMBERED = 1 << 23
"""Characters of ends of chats whose tokens are kept."""


class Encoder(Protocol):
    """Turns one chat into tokens, and remembers some."""

    tokenizer: Any
    separators: list[str]
    """Tokens that a text is cut at before anything else is done to it."""
    ends: dict[str, list[int]]
    """Texts that chats ended with, with their tokens."""
    scored: dict[int, tuple[Chat, list[int]]]
    """Chats that were just scored, by identity, with their tokens: some will be trained on."""

    def encode_chat(self, chat: Chat) -> list[int]: ...

    def render(self, chat: Chat) -> str: ...


def separators(tokenizer: Any) -> list[str]:
    """The added tokens: those of a template are among them, called special or not.

    One that takes the blanks after it along, or stands for whole words alone, does not separate.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return [str(token) for token in added if not (token.rstrip or token.single_word)]


def encode_chats(encoder: Encoder, chats: Sequence[Chat]) -> list[list[int]]:
    """The tokens of every chat, the same as `encode_chat` gives one by one.

    Text after a separator is encoded on its own, so that the beginning, up to the last separator
    before the chats part, is encoded a single time. The shortest and the longest are checked.
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
    """The same; the tokens are kept until others are scored."""
    contexts = encode_chats(encoder, chats)
    encoder.scored = {
        id(chat): (chat, context) for chat, context in zip(chats, contexts, strict=True)
    }
    return contexts


def encode_scored(encoder: Encoder, chats: Sequence[Chat]) -> list[list[int]]:
    """The same of chats that were scored, most often just before."""
    entries = [encoder.scored.get(id(chat)) for chat in chats]
    if None in entries:
        return encode_chats(encoder, chats)
    return [tokens for _, tokens in filter(None, entries)]


def unused_mark(chat: Chat) -> str:
    """Stands for a message while the template is rendered; no message of the chat contains it."""
    marks = (f"\u2402METIS{number}\u2403" for number in count())
    return next(mark for mark in marks if not any(mark in message["content"] for message in chat))


def between_turns(
    render: Callable[[Chat], str], chat: Chat, answers: Sequence[Message], ends: Iterable[str]
) -> str:
    """The text between the assistant's answer to `chat` and its next turn.

    `ends` are the ends of a turn that the answer brought itself; none where it was cut short.
    Lone surrogates, which an environment may repeat after a policy and no tokenizer encodes, become
    question marks: otherwise a policy could have its rollout fail rather than be scored.
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
    """The tokens of texts, most of which come up again: prompts are judged more often than once."""
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
    """True if the chats differ in their last message only, which no template would trim."""
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
