"""A user's rows as prompts: each is made when it is read, so that no text is copied."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, overload

from metis.core import Chat, Prompt
from metis.errors import MetisError

TEXTS = ("prompt", "problem", "question", "text")
"""Columns that may hold the text; the first one that a row has is read."""


class Rows(Sequence[Prompt]):
    """Prompts of rows: dicts, texts, chats or `Prompt`s, in a list or a dataset.

    A dict has its text, or chat, in one of `TEXTS`, and optionally `id`, `category` and
    `difficulty`. Without an id, a row's position is its id.
    """

    def __init__(self, given: Iterable[Any]) -> None:
        indexed = hasattr(given, "__len__") and hasattr(given, "__getitem__")
        self.given: Any = given if indexed and not isinstance(given, Mapping) else list(given)

    def __len__(self) -> int:
        return len(self.given)

    @overload
    def __getitem__(self, place: int) -> Prompt: ...

    @overload
    def __getitem__(self, place: slice) -> list[Prompt]: ...

    def __getitem__(self, place: int | slice) -> Prompt | list[Prompt]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return _prompt(place, self.given[place])

    def chat(self, place: int) -> Chat:
        """The chat of a row; a text is the message of a user."""
        row = self.given[place]
        content = row.text if isinstance(row, Prompt) else _content(place, row)
        if _is_chat(content):
            return cast(Chat, content)
        return [{"role": "user", "content": str(content)}]


def _prompt(place: int, row: Any) -> Prompt:
    if isinstance(row, Prompt):
        return row
    text = content = _content(place, row)
    if not isinstance(text, str):
        text = _last(content) if _is_chat(content) else None
    if not isinstance(text, str):
        raise MetisError(f"prompts[{place}] = {row!r}: give texts, chats, dicts or metis.Prompt")
    if row is content:
        return Prompt(str(place), text)
    own, difficulty = row.get("id"), row.get("difficulty")
    return Prompt(
        str(place if own is None else own),
        text,
        str(row.get("category") or ""),
        None if difficulty is None else float(difficulty),
    )


def _content(place: int, row: Any) -> Any:
    """The text or the chat of a row."""
    if not isinstance(row, dict | Mapping):
        return row
    for name in TEXTS:
        if name in row:
            return row[name]
    raise MetisError(
        f"prompts[{place}] has the columns {', '.join(map(str, row))}: name the one with the text "
        f"{' or '.join(TEXTS)}"
    )


def _is_chat(content: Any) -> bool:
    return (
        isinstance(content, Sequence)
        and not isinstance(content, str)
        and bool(content)
        and all(isinstance(message, Mapping) and "content" in message for message in content)
    )


def _last(chat: Sequence[Mapping[str, Any]]) -> Any:
    """The last message of the user, or the last one."""
    asked = [message for message in chat if message.get("role") == "user"]
    return (asked or chat)[-1]["content"]
