"""The JSON that prepared files hold of a dialogue: every part of it is of its kind, or is named."""

import json
from collections.abc import Callable
from typing import Any

from metis.errors import first_line
from metis.tasks.bfcl.package import FILES

CATEGORIES = {
    "base": "Base",
    "miss_func": "Miss-F",
    "miss_param": "Miss-P",
    "long_context": "Long",
    "composite": "Comp.",
}
"""The multi-turn categories, and what the paper's table calls them."""
LONGEST = 60
"""Characters of a wrong part that are shown."""


class Malformed(Exception):
    """A text that describes no dialogue; the message says which part of it is wrong."""


def read_documents(text: Any) -> dict[str, Any]:
    """The parts of a dialogue by name."""
    try:
        document = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {first_line(error)}") from None
    if not isinstance(document, dict):
        raise Malformed("no JSON object")
    for name, (holds, kind) in PARTS.items():
        if name not in document:
            raise Malformed(f"{name} is missing")
        part = document[name]
        if not holds(part):
            raise Malformed(f"{name} = {_shown(part)} is not {kind}")
    turns = len(document["questions"])
    if len(document["truth"]) != turns:
        raise Malformed(f"{turns} questions, but the truth of {len(document['truth'])}")
    if late := [turn for turn in document["handed"] if int(turn) >= turns]:
        raise Malformed(f"functions are handed over in turn {late[0]} of {turns}")
    return document


def _text(part: Any) -> bool:
    return isinstance(part, str) and part == part.encode("utf-8", "replace").decode()


def _texts(part: Any) -> bool:
    return isinstance(part, list) and all(map(_text, part))


def _turn(part: str) -> bool:
    return len(part) < 4 and part.isascii() and part.isdecimal()


PARTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (lambda part: _text(part) and part != "", "text"),
    "category": (
        lambda part: _text(part) and part in CATEGORIES,
        f"one of {', '.join(CATEGORIES)}",
    ),
    "apis": (
        lambda part: _texts(part) and part != [] and set(part) <= FILES.keys(),
        f"a list of some of {', '.join(FILES)}",
    ),
    "questions": (lambda part: _texts(part) and part != [], "a list of texts"),
    "truth": (
        lambda part: isinstance(part, list) and all(map(_texts, part)),
        "a list of lists of calls",
    ),
    "scenario": (lambda part: isinstance(part, dict), "an object"),
    "handed": (
        lambda part: (
            isinstance(part, dict) and all(map(_turn, part)) and all(map(_texts, part.values()))
        ),
        "lists of functions by turn",
    ),
}
"""A check of each part of a dialogue, and its wording."""


def _shown(part: Any) -> str:
    text = json.dumps(part)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
