"""Rows of logs and members of transcripts as rows of the database."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from metis.run.statistics import group_kind
from metis.run.transcripts import Member
from metis.signal import variance
from metis.view import kept
from metis.view.browse.database import clean
from metis.view.browse.search import indexed

FROM_HEAD, FROM_GROUP, FROM_PROMPTS = 0, 1, 2
"""Trust that a text is the prompt as the judge reads it, and not a chat around it."""

Row = Mapping[str, Any]


class Into(NamedTuple):
    """The open transaction, and the file that is read; `words` is True with an index of words."""

    write: sqlite3.Connection
    file: str
    words: bool
    transcribed: bool = False
    """True where transcripts of the same step have the answers of a log."""


def metrics(into: Into, row: Row, line: str) -> None:
    into.write.execute("INSERT INTO metrics VALUES (?, ?, ?)", (into.file, row["step"], line))


def timings(into: Into, row: Row, line: str) -> None:
    into.write.execute("INSERT INTO timings VALUES (?, ?, ?)", (into.file, row["step"], line))


def prompts(into: Into, row: Row, line: str) -> None:
    about = row.get("text"), row.get("category"), row.get("difficulty")
    _prompt(into, row["prompt"], *about, FROM_PROMPTS)


def judgments(into: Into, row: Row, line: str) -> None:
    values = (
        *(into.file, row["step"], clean(row["prompt"]), bool(row.get("chosen"))),
        *(clean(str(row.get("reason", ""))), row.get("score"), line),
    )
    into.write.execute("INSERT INTO judgments VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def exemplars(into: Into, row: Row, line: str) -> None:
    into.write.execute("INSERT INTO exemplars VALUES (?, ?, ?)", (into.file, row["step"], line))


def evals(into: Into, row: Row, line: str) -> None:
    values = into.file, row["step"], clean(row["prompt"]), row["reward"]
    into.write.execute("INSERT INTO evals VALUES (?, ?, ?, ?)", values)


def rollouts(into: Into, row: Row, line: str) -> None:
    _group(into, row)
    head, rows = kept.of_group(row)
    if rows and not into.transcribed:
        _member(into, "train", head, rows, group_kind(row.get("rewards", [])))


def outcomes(into: Into, row: Row, line: str) -> None:
    """The prompts of a survey, all at step 0."""
    _group(into, {**row, "step": 0})


def answers(into: Into, row: Row, line: str) -> None:
    """The problems of an evaluation, all at step 0."""
    _group(into, kept.group_of_problem(row))
    if not into.transcribed:
        head, rows = kept.of_problem(row)
        _member(into, "eval", head, rows, outcome([each["reward"] for each in rows]))


LOGS: dict[str, Callable[[Into, Row, str], None]] = {
    "metrics": metrics,
    "timings": timings,
    "prompts": prompts,
    "rollouts": rollouts,
    "outcomes": outcomes,
    "answers": answers,
    "judgments": judgments,
    "exemplars": exemplars,
    "evals": evals,
}
"""The logs that are read, in this order, with the function that takes in their rows."""


def transcript(into: Into, member: Member) -> None:
    """Insert a transcript's group; it replaces what the log kept of it."""
    head, kind = member.head, member.place.kind
    key = kind, head["step"], clean(str(head["prompt"]))
    kept_by_a_log = "kind = ? AND step = ? AND prompt = ? AND file NOT LIKE 'transcripts/%'"
    for table in ("members", "answers"):
        into.write.execute(f"DELETE FROM {table} WHERE {kept_by_a_log}", key)
    rewards = [_reward(row) for row in member.rows]
    said = outcome(rewards) if kind in ("train", "survey") else None
    _prompt(into, head["prompt"], kept.question(head), head.get("category"), None, FROM_HEAD)
    _member(into, kind, head, member.rows, said, member)


def outcome(rewards: Sequence[float | None]) -> str | None:
    """The kind of a group; None of a single answer that has a reward."""
    valid = [reward for reward in rewards if reward is not None]
    return None if len(rewards) == len(valid) == 1 else group_kind(valid)


def _prompt(into: Into, prompt: str, text: Any, category: Any, difficulty: Any, trust: int) -> None:
    """Insert or update a prompt; the text of the most trusted source stays."""
    values = (
        *(into.file, clean(prompt), clean(str(text or "")), clean(str(category or ""))),
        *(difficulty if isinstance(difficulty, int | float | str) else None, trust),
    )
    into.write.execute(
        "INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (prompt) DO UPDATE SET "
        "file = excluded.file, text = excluded.text, trust = excluded.trust, "
        "category = coalesce(nullif(excluded.category, ''), category), "
        "difficulty = coalesce(excluded.difficulty, difficulty) "
        "WHERE excluded.trust > trust OR text = ''",
        values,
    )


def _group(into: Into, row: Row) -> None:
    rewards = row.get("rewards", [])
    body = {**row, "variance": variance(rewards) if len(rewards) > 1 else None}
    mean = sum(rewards) / len(rewards) if rewards else None
    kind = outcome([*rewards, *[None] * int(row.get("failed", 0))]) or ""
    values = (
        *(into.file, row["step"], clean(row["prompt"]), mean, kind),
        json.dumps(body),
    )
    into.write.execute("INSERT INTO groups VALUES (?, ?, ?, ?, ?, ?)", values)
    if row.get("text") or row.get("category"):
        _prompt(into, row["prompt"], row.get("text"), row.get("category"), None, FROM_GROUP)


def _member(
    into: Into,
    kind: str,
    head: Row,
    rows: Sequence[Row],
    said: str | None,
    placed: Member | None = None,
) -> None:
    """A group and its answers; without a place in a transcript it is kept whole.

    Members of the same prompt, step and kind are one group; `first` is the id of its first answer.
    """
    prompt = clean(str(head["prompt"]))
    where = placed.place[1:] if placed else (None, None, None)
    body = None if placed else json.dumps({"head": head, "rows": rows})
    number = into.write.execute(
        "INSERT INTO members (file, segment, start, length, kind, step, prompt, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (into.file, *where, kind, head["step"], prompt, body),
    ).lastrowid
    before, begun = into.write.execute(
        "SELECT max(rollout) + 1, min(first) FROM answers "
        "WHERE prompt = ? AND step = ? AND kind = ?",
        (prompt, head["step"], kind),
    ).fetchone()
    category = clean(str(head.get("category") or ""))
    first = _rollout(rows[0], 0) if rows else 0
    shift = before if before and first < before else 0
    [last] = into.write.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'answers'"
    ).fetchone()
    into.write.executemany(
        f"INSERT INTO answers VALUES ({', '.join('?' * 15)})",
        (
            (
                *(last + 1 + place, into.file, number, place, kind, head["step"], prompt),
                *(shift + _rollout(row, place), category, said, _reward(row)),
                *(row.get("tokens"), bool(row.get("truncated")), _failure(row), begun or last + 1),
            )
            for place, row in enumerate(rows)
        ),
    )
    if into.words:
        into.write.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            ((last + 1 + place, indexed(clean(kept.text(row)))) for place, row in enumerate(rows)),
        )


def _rollout(row: Row, place: int) -> int:
    found = row.get("rollout")
    return found if isinstance(found, int) else place


def _reward(row: Row) -> float | None:
    """The reward of a rollout, or the score of a judgment."""
    found = row.get("reward", row.get("score"))
    return float(found) if isinstance(found, int | float) else None


def _failure(row: Row) -> str | None:
    return clean(str(row["failure"])) if row.get("failure") else None
