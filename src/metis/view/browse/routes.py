"""Addresses under `/api/`, and the JSON that each answers with.

An id or a number in an address is looked up and never becomes part of a path of a file.
"""

import contextlib
import json
import math
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from metis.errors import MetisError
from metis.view.browse import steps
from metis.view.browse.answers import RequestRefused, number
from metis.view.browse.opened import Opened, OpenedComparison
from metis.view.browse.overview import Compared, overview

Asked = Mapping[str, str]

LONGEST = 100_000
"""Characters of a text that are sent; of a longer one its start and its end."""
TAIL = 20_000
AT_ONCE = 0.2
"""Seconds of indexing before an answer is said not to be there."""


class Missing(Exception):
    """Nothing is at this address."""


class Routes:
    """Answers for the folders that are open."""

    def __init__(self, opened: Sequence[Opened | OpenedComparison]) -> None:
        self.opened = list(opened)
        self._compared = {
            place: Compared(each)
            for place, each in enumerate(opened)
            if isinstance(each, OpenedComparison)
        }

    def answer(self, address: str) -> tuple[int, bytes]:
        """The status and the JSON of an address below `/api/`."""
        path, _, query = address.partition("?")
        try:
            asked = dict(parse_qsl(query, errors="replace"))
            found = self._find([unquote(part) for part in path.split("/")], asked)
            return 200, _json(found)
        except Missing as error:
            return 404, _json({"error": str(error)})
        except RequestRefused as error:
            return 400, _json({"error": str(error)})
        except MetisError as error:
            return 500, _json({"error": str(error)})
        except sqlite3.DatabaseError:
            return 500, _json({"error": self._mend(path)})

    def _find(self, parts: Sequence[str], asked: Asked) -> Any:
        if parts == ["folders"]:
            return [self._folder(place) for place in range(len(self.opened))]
        place = _place(parts[0], len(self.opened))
        opened = self.opened[place]
        if parts[1:] == ["overview"] and isinstance(opened, OpenedComparison):
            return self._compared[place].overview()
        if isinstance(opened, OpenedComparison):
            raise Missing("a comparison has an overview alone; its runs are folders of their own")
        opened.asked = time.monotonic()
        opened.index.refresh()
        if len(parts) == 3 and parts[1] == "steps":
            return _there(steps.step(opened.index.database, number("step", parts[2])), "step")
        route = ROUTES.get("/".join(parts[1:]))
        if route is None:
            raise Missing("there is no such address")
        return route(opened, asked)

    def _mend(self, path: str) -> str:
        """Rebuild the damaged index of a folder."""
        opened = self.opened[_place(path.partition("/")[0], len(self.opened))]
        if isinstance(opened, Opened):
            opened.index.rebuild()
        return "the index is damaged and is built again: ask again in a moment"

    def _folder(self, place: int) -> dict[str, Any]:
        opened = self.opened[place]
        about = {name: getattr(opened, name) for name in ("label", "kind", "state", "wrong")}
        return {"id": place, "folder": opened.folder.resolve().name, **about}


def _place(text: str, count: int) -> int:
    place = int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else count
    if place >= count:
        raise Missing("there is no such folder")
    return place


def _there(found: Any, what: str) -> Any:
    if found is None:
        raise Missing(f"there is no such {what}")
    return found


def _prompt(opened: Opened, asked: Asked) -> Any:
    return _there(opened.prompts.one(asked.get("id", ""), opened.answers), "prompt")


def _answer(opened: Opened, asked: Asked) -> Any:
    step, rollout = (number(name, asked.get(name, "")) for name in ("step", "rollout"))
    key = asked.get("kind", ""), step, asked.get("prompt", ""), rollout
    found = opened.answers.one(*key)
    if found is None:
        with contextlib.suppress(MetisError, OSError):  # it may have been written a moment ago
            opened.index.update(AT_ONCE)
        found = opened.answers.one(*key)
    return _there(found, "answer")


ROUTES: dict[str, Callable[[Opened, Asked], Any]] = {
    "overview": lambda opened, asked: overview(opened),
    "prompts": lambda opened, asked: opened.prompts.page(asked),
    "prompt": _prompt,
    "answers": lambda opened, asked: opened.answers.page(asked),
    "answer": _answer,
}
"""Addresses of a run, a survey or an evaluation; `steps/T` is the other one."""


def _json(value: Any) -> bytes:
    return json.dumps(_sent(value), allow_nan=False).encode()


def _sent(value: Any) -> Any:
    """A JSON value with long texts truncated and non-finite numbers as null."""
    if isinstance(value, str):
        return bounded(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _sent(each) for key, each in value.items()}
    return [_sent(each) for each in value] if isinstance(value, list | tuple) else value


def bounded(text: str) -> str:
    """A text without its middle where it is long, which says how much that was."""
    if len(text) <= LONGEST:
        return text
    left = len(text) - LONGEST
    head, tail = text[: LONGEST - TAIL], text[-TAIL:]
    return f"{head}\n[{left:,} of {len(text):,} characters are left out here]\n{tail}"
