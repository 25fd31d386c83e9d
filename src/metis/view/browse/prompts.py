"""Prompts: pages of search results, and the history of one prompt."""

import time
from collections.abc import Mapping
from typing import Any

from metis.view.browse import search
from metis.view.browse.answers import SIZE, Answers, RequestRefused, number
from metis.view.browse.database import Database
from metis.view.browse.steps import SHOWN, history

Row = dict[str, Any]

ANSWERS = 200
"""Newest answers of a prompt that are listed."""
NEIGHBOURS = 8
"""Prompts with the nearest predictions."""
COLUMNS = ("prompt", "text", "category", "seen", "chosen", "score", "mean", "outcome")
SORTED = ("prompt", "category", "seen", "chosen", "score", "mean", "outcome", "last")
NEWEST = "last DESC, chosen DESC, score DESC, prompt"

_FROM = """
FROM (SELECT counts.prompt, text, coalesce(category, '') AS category,
  max(judged, grouped) AS seen, max(picked, grouped) AS chosen, score, mean, outcome, last
  FROM counts LEFT JOIN texts USING (prompt)) WHERE """
_NEIGHBOURS = """
SELECT j.prompt, coalesce(t.text, ''), j.score, j.step FROM judgments j
LEFT JOIN texts t ON t.prompt = j.prompt
WHERE j.step = ?1 AND j.prompt <> ?2 AND j.score IS NOT NULL
ORDER BY abs(j.score - ?3), j.prompt LIMIT ?4
"""


class Prompts:
    """The prompts of a folder."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def page(self, asked: Mapping[str, str]) -> Row:
        """A page of matching prompts."""
        began = time.monotonic()
        page = max(0, number("page", asked.get("page") or "0"))
        where, values = _conditions(asked)
        order = _order(asked.get("sort", ""))
        [total] = self.database.one(f"SELECT count(*) {_FROM}{where}", values)
        columns = f"prompt, substr(coalesce(text, ''), 1, {SHOWN}), category, "
        rows = self.database.rows(
            f"SELECT {columns} seen, chosen, score, mean, outcome {_FROM}{where} "
            f"ORDER BY {order} LIMIT ? OFFSET ?",
            [*values, SIZE, SIZE * page],
        )
        return {
            "total": total,
            "page": page,
            "size": SIZE,
            "items": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
            "seconds": round(time.monotonic() - began, 4),
        }

    def one(self, prompt: str, answers: Answers) -> Row | None:
        """The details of a prompt; None if there is no such prompt."""
        known = self.database.one(
            "SELECT text, category, difficulty FROM texts WHERE prompt = ?", (prompt,)
        )
        rows, given = history(self.database, prompt), answers.of_prompt(prompt, ANSWERS)
        evals = self.database.rows(
            "SELECT step, reward FROM evals WHERE prompt = ? ORDER BY step", (prompt,)
        )
        if known is None and not rows and not given and not evals:
            return None
        text, category, difficulty = known or ("", "", None)
        last = next((row for row in rows if row["score"] is not None), None)
        near = (last["step"], prompt, last["score"], NEIGHBOURS) if last else None
        names = ("prompt", "text", "score", "step")
        found = self.database.rows(_NEIGHBOURS, near) if near else []
        return {
            "prompt": prompt,
            "text": text,
            "category": category,
            "difficulty": difficulty,
            "history": rows,
            "evals": [list(row) for row in evals],
            "answers": given,
            "neighbours": [dict(zip(names, row, strict=True)) for row in found],
        }


def _conditions(asked: Mapping[str, str]) -> tuple[str, list[Any]]:
    parts, values = ["1"], list[Any]()
    for term in search.terms(asked.get("q", "")):
        parts.append("(text LIKE ? ESCAPE '\\' OR prompt LIKE ? ESCAPE '\\')")
        values += [_like(term.text)] * 2
    for name in ("category", "outcome"):
        if asked.get(name):
            parts.append(f"{name} = ?")
            values.append(asked[name])
    return " AND ".join(parts), values


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _order(asked: str) -> str:
    name = asked.removeprefix("-")
    if not asked:
        return NEWEST
    if name not in SORTED:
        raise RequestRefused(f"sort = {asked!r}: use {', '.join(SORTED)}, or one with a minus")
    way = "DESC" if asked.startswith("-") else "ASC"
    return f"{name} IS NULL, {name} {way}, prompt"
