"""Answers: pages of search results, and the details of one answer."""

import json
import sqlite3
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from metis.errors import MetisError
from metis.files import inside
from metis.run import transcripts
from metis.run.transcripts import Member, Place
from metis.view import kept
from metis.view.browse import search
from metis.view.browse.database import Database
from metis.view.browse.search import Term

Row = dict[str, Any]

SIZE = 50
"""Answers on a page."""
PATIENCE = 0.15
"""Seconds in which texts are looked at for what the index cannot tell."""
REMEMBERED = 16
"""Searches whose hits are remembered."""
LARGEST = 2**48
"""The largest number that is looked for."""
SHOWN = 120
"""Characters of a prompt beside an answer."""

EQUAL = ("kind", "step", "prompt", "category", "outcome")
NUMBERS = {"step": "step = ?", "from": "step >= ?", "to": "step <= ?"}
REWARDS = {
    "right": "reward >= 1 AND kind <> 'judge'",
    "wrong": "reward <= 0 AND kind <> 'judge'",
    "partial": "reward > 0 AND reward < 1 AND kind <> 'judge'",
}
ORDERS = {
    "": "step DESC, first, rollout",
    "step": "step, first, rollout",
    "reward": "reward, step DESC, first, rollout",
    "-reward": "reward DESC, step DESC, first, rollout",
    "tokens": "tokens, step DESC, first, rollout",
    "-tokens": "tokens DESC, step DESC, first, rollout",
}
"""Answers of a group follow each other, in the order of their numbers."""
_REASON = (
    "EXISTS (SELECT 1 FROM judgments j "
    "WHERE j.step = answers.step AND j.prompt = answers.prompt AND j.reason = ?)"
)
_COLUMNS = (
    "id, member, place, kind, step, prompt, rollout, reward, tokens, truncated, failure, first"
)


class Found(NamedTuple):
    """A row of the table of answers."""

    id: int
    member: int
    place: int
    kind: str
    step: int
    prompt: str
    rollout: int
    reward: float | None
    tokens: int | None
    truncated: int
    failure: str | None
    first: int

    @property
    def facts(self) -> Row:
        facts = {name: getattr(self, name) for name in ("rollout", "reward", "tokens", "failure")}
        if self.kind == "judge":
            facts |= {"reward": None, "score": self.reward}
        return {**facts, "truncated": bool(self.truncated)}


class RequestRefused(ValueError):
    """A filter that cannot be applied."""


def conditions(asked: Mapping[str, str]) -> tuple[str, list[Any]]:
    """The filters of a request as a condition of SQL and its values."""
    parts, values = [], list[Any]()
    for name, value in asked.items():
        if name in NUMBERS and value:
            parts.append(NUMBERS[name])
            values.append(number(name, value))
        elif name in EQUAL and value:
            parts.append(f"{name} = ?")
            values.append(value)
        elif name == "reason" and value:
            parts.append(_REASON)
            values.append(value)
    if (reward := asked.get("reward", "")) and reward not in REWARDS:
        raise RequestRefused(f"reward = {reward!r}: use {', '.join(REWARDS)}")
    parts += [REWARDS[reward]] if reward else []
    parts += ["truncated"] if asked.get("truncated") == "1" else []
    parts += ["failure IS NOT NULL"] if asked.get("failed") == "1" else []
    return " AND ".join(f"({part})" for part in parts) or "1", values


def number(name: str, value: str) -> int:
    try:
        return max(-LARGEST, min(LARGEST, int(value)))
    except ValueError:
        raise RequestRefused(f"{name} = {value[:40]!r}: use a number") from None


class Answers:
    """The answers of a folder."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self._remembered: OrderedDict[tuple[Any, ...], _Looked] = OrderedDict()
        self._lock = Lock()
        self._last: tuple[Any, Member] | None = None
        """The group that was read last: its answers are asked for one after the other."""

    def page(self, asked: Mapping[str, str]) -> Row:
        """A page of matching answers; `exact` is false while the total is a lower bound."""
        began = time.monotonic()
        page = max(0, number("page", asked.get("page") or "0"))
        order = ORDERS.get(asked.get("sort", ""))
        if order is None:
            raise RequestRefused(f"sort = {asked['sort']!r}: use {', '.join(filter(None, ORDERS))}")
        terms = search.terms(asked.get("q", ""))
        where, values = conditions(asked)
        if words := self._words(terms):
            where += " AND id IN (SELECT rowid FROM words WHERE words MATCH ?)"
            values.append(words)
        sure = all(term.whole for term in terms) and bool(words or not terms)
        with self._lock:
            looked = self._looked(where, values, order, terms, sure)
            looked.go_on(SIZE * (page + 1), lambda name: self._fits(name, terms))
            hits = looked.hits[SIZE * page : SIZE * (page + 1)]
            total, exact = len(looked.hits), looked.done
        return {
            "total": total,
            "exact": exact,
            "page": page,
            "size": SIZE,
            "items": [self._item(each, terms) for name in hits if (each := self._of(name))],
            "seconds": round(time.monotonic() - began, 4),
        }

    def _words(self, terms: Sequence[Term]) -> str:
        """The full-text query of a search; empty if the index cannot answer it."""
        words = search.match(terms)
        try:
            self.database.one("SELECT 1 FROM words WHERE words MATCH ? LIMIT 1", (words or "a",))
        except sqlite3.OperationalError:  # no index of words, or one that splits them otherwise
            return ""
        return words

    def _looked(
        self, where: str, values: Sequence[Any], order: str, terms: Sequence[Term], sure: bool
    ) -> "_Looked":
        """The results of a search so far; complete if the index alone answers it."""
        patterns = tuple(term.pattern.pattern for term in terms)
        key = (where, *values, order, patterns, self.database.revision)
        looked = self._remembered.pop(key, None)
        if looked is None:
            query = f"SELECT id FROM answers WHERE {where} ORDER BY {order}"
            names = array("q", (name for (name,) in self.database.rows(query, values)))
            looked = _Looked(names, len(names), names) if sure else _Looked(names)
        self._remembered[key] = looked
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return looked

    def _fits(self, name: int, terms: Sequence[Term]) -> bool:
        found = self._of(name)
        return found is not None and search.fits(terms, self._text(found))

    def _of(self, name: int) -> Found | None:
        row = self.database.one(f"SELECT {_COLUMNS} FROM answers WHERE id = ?", (name,))
        return Found(*row) if row else None

    def _item(self, found: Found, terms: Sequence[Term]) -> Row:
        text = self.database.one("SELECT text FROM texts WHERE prompt = ?", (found.prompt,))
        shown, hits = search.snippet(terms, self._text(found))
        where = {"kind": found.kind, "step": found.step, "prompt": found.prompt}
        about = {"text": (text[0] or "")[:SHOWN] if text else ""}
        return {**where, **about, **found.facts, "snippet": shown, "hits": hits}

    def _text(self, found: Found) -> str:
        try:
            _, rows = self._member(found.member)
            return kept.text(rows[found.place])
        except (MetisError, IndexError):  # cut or rewritten since; the index follows
            return ""

    def _member(self, number: int) -> tuple[Row, list[Row]]:
        """Head and rows of a group."""
        row = self.database.one(
            "SELECT kind, segment, start, length, body FROM members WHERE id = ?", (number,)
        )
        if row is None:
            return {}, []
        *place, body = row
        if body is not None:
            whole = json.loads(body)
            return whole["head"], whole["rows"]
        placed, last = Place(*place), self._last
        if last is None or last[0] != (number, placed):
            name = transcripts.file_name(placed.kind, placed.segment)
            inside(self.folder, self.folder / transcripts.FOLDER / name)
            self._last = last = (number, placed), transcripts.read(self.folder, placed)
        return last[1].head, last[1].rows

    def of_prompt(self, prompt: str, most: int) -> list[Row]:
        """The newest answers to a prompt."""
        rows = self.database.rows(
            f"SELECT {_COLUMNS} FROM answers WHERE prompt = ? "
            "ORDER BY step DESC, first, rollout LIMIT ?",
            (prompt, most),
        )
        items = (self._item(Found(*row), ()) for row in rows)
        return [{**item, "hits": []} for item in items]

    def one(self, kind: str, step: int, prompt: str, rollout: int) -> Row | None:
        """An answer with its turns, and its neighbours in the file; None where there is none."""
        rows = self.database.rows(
            f"SELECT {_COLUMNS} FROM answers WHERE kind = ? AND step = ? AND prompt = ? "
            "ORDER BY rollout",
            (kind, step, prompt),
        )
        siblings = [Found(*row) for row in rows]
        found = next((each for each in siblings if each.rollout == rollout), None)
        if found is None:
            return None
        head, members = self._member(found.member)
        row = members[found.place] if found.place < len(members) else {}
        known = self.database.one("SELECT text, category FROM texts WHERE prompt = ?", (prompt,))
        judgment = self.database.one(
            "SELECT body FROM judgments WHERE step = ? AND prompt = ?", (step, prompt)
        )
        return {
            "kind": kind,
            "step": step,
            "prompt": prompt,
            "text": known[0] or "" if known else "",
            "category": (known[1] if known else "") or head.get("category") or "",
            "messages": kept.asked(head, row),
            "said": kept.messages(row),
            **found.facts,
            "parts": row.get("parts") or {},
            "reference": str(head.get("reference") or ""),
            "trained": row.get("trained"),
            "siblings": [each.facts for each in siblings],
            "judgment": json.loads(judgment[0]) if judgment else None,
            "previous": self._beside(found, "<", "DESC"),
            "next": self._beside(found, ">", "ASC"),
        }

    def _beside(self, found: Found, sign: str, way: str) -> Row | None:
        """The answer before or after it, of the same kind: of its group, else of the next one in
        the order of steps."""
        row = self.database.one(
            "SELECT kind, step, prompt, rollout FROM answers "
            f"WHERE kind = ? AND (step, first, rollout) {sign} (?, ?, ?) "
            f"ORDER BY step {way}, first {way}, rollout {way} LIMIT 1",
            (found.kind, found.step, found.first, found.rollout),
        )
        return dict(zip(("kind", "step", "prompt", "rollout"), row, strict=True)) if row else None


class _Looked:
    """A scan for a search: the answers read so far, and those that match."""

    def __init__(
        self, candidates: Sequence[int], looked: int = 0, hits: Sequence[int] = ()
    ) -> None:
        self.candidates, self.looked, self.hits = candidates, looked, array("q", hits)

    @property
    def done(self) -> bool:
        return self.looked == len(self.candidates)

    def go_on(self, wanted: int, fits: Callable[[int], bool]) -> None:
        """Scan until the time is up; at first, until there is more than a page."""
        end, first = time.monotonic() + PATIENCE, not self.looked
        while not self.done and time.monotonic() < end:
            if first and len(self.hits) > wanted:
                return
            name = self.candidates[self.looked]
            self.looked += 1
            if fits(name):
                self.hits.append(name)
