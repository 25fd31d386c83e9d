"""Candidates of a step, chosen or passed over: prediction, reason and what came of them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from metis.view.browse.counting import NOT_ROLLED_OUT
from metis.view.browse.database import Database, clean

Row = dict[str, Any]

JUDGED = ("chosen", "reason", "score", "failure", "propensity", "distribution", "reply")
EARNED = ("rewards", "tokens", "failed", "variance", "reported")
SHOWN = 300
"""Characters of a prompt in a table."""

_ROWS = """
SELECT j.step, j.prompt, j.body, g.body, g.outcome, t.text, t.category
FROM judgments j LEFT JOIN groups g ON g.step = j.step AND g.prompt = j.prompt
LEFT JOIN texts t ON t.prompt = j.prompt WHERE {0}
UNION ALL
SELECT g.step, g.prompt, NULL, g.body, g.outcome, t.text, t.category
FROM groups g LEFT JOIN texts t ON t.prompt = g.prompt
WHERE {1} AND NOT EXISTS
  (SELECT 1 FROM judgments j WHERE j.step = g.step AND j.prompt = g.prompt)
"""
_IN_STEP = _ROWS.format("j.step = ?1", "g.step = ?1")
_OF_PROMPT = _ROWS.format("j.prompt = ?1", "g.prompt = ?1")
_TRUNCATED = """
SELECT step, prompt, sum(truncated) FROM answers
WHERE kind = 'train' AND {} = ?1 GROUP BY step, prompt
"""


def step(database: Database, number: int) -> Row | None:
    """A step with its metrics and candidates; None where the run has no such step."""
    metrics = database.one("SELECT body FROM metrics WHERE step = ?", (number,))
    rows = list(_rows(database, _IN_STEP, number, _TRUNCATED.format("step")))
    rows.sort(key=lambda row: (not row["chosen"], -(row["score"] or 0.0), row["prompt"]))
    if metrics is None and not rows:
        return None
    exemplars = database.rows("SELECT body FROM exemplars WHERE step = ?", (number,))
    return {
        "step": number,
        "metrics": json.loads(metrics[0]) if metrics else {},
        "exemplars": [_exemplar(database, json.loads(body)) for (body,) in exemplars],
        "rows": [{**row, "text": row["text"][:SHOWN]} for row in rows],
    }


def history(database: Database, prompt: str) -> list[Row]:
    """A prompt in every step that it was in, newest first."""
    rows = _rows(database, _OF_PROMPT, prompt, _TRUNCATED.format("prompt"))
    return sorted(rows, key=lambda row: -row["step"])


def _rows(
    database: Database, query: str, value: int | str, counting: str
) -> Iterator[dict[str, Any]]:
    truncated = {(at, name): count for at, name, count in database.rows(counting, (value,))}
    for at, name, judged, group, outcome, text, category in database.rows(query, (value,)):
        judgment, earned = json.loads(judged or "{}"), json.loads(group or "{}")
        yield {
            "step": at,
            "prompt": name,
            "text": text or "",
            "category": category or "",
            **{key: judgment.get(key) for key in JUDGED},
            "chosen": bool(judgment.get("chosen", group is not None)),
            **{key: earned.get(key) for key in EARNED},
            "failure": judgment.get("failure"),
            "variance": earned.get("variance", judgment.get("variance")),
            "outcome": NOT_ROLLED_OUT if outcome is None else outcome,
            "truncated": truncated.get((at, name)),
        }


def _exemplar(database: Database, row: Mapping[str, Any]) -> Row:
    shown = {key: row.get(key) for key in ("prompt", "value", "variance", "outcome_step")}
    return {**shown, "text": prompt_text(database, str(row.get("prompt")))[:SHOWN]}


def prompt_text(database: Database, prompt: str) -> str:
    found = database.one("SELECT text FROM texts WHERE prompt = ?", (clean(prompt),))
    return found[0] or "" if found else ""
