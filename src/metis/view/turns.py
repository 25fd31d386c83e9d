"""Answers in a terminal: one with its turns, or a group's, one line each."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from metis.errors import MetisError
from metis.run import folder as run_folder
from metis.run import transcripts
from metis.run.folder import log_file
from metis.text import printable
from metis.view import kept

Row = Mapping[str, Any]

NAMED = re.compile(rf"(?:({'|'.join(transcripts.KINDS)})/)?(\d+)/(.+)/(\d+)", re.DOTALL)
LAST = 100
"""Characters of the end of an answer that are shown in a list."""


class Said(NamedTuple):
    """An answer, and the head of its group."""

    head: Row
    row: Row


def found(folder: Path, named: str) -> Said:
    """The answer STEP/ID/K, or KIND/STEP/ID/K."""
    match = NAMED.fullmatch(named)
    if match is None:
        raise MetisError(f"--answer {named!r}: write STEP/ID/K, such as 12/problem:7/0")
    kind, step, prompt = match[1] or main_kind(folder), int(match[2]), printable(match[3])
    group = said(folder, kind, step, prompt)
    one = group.get(int(match[4]))
    if one is None:
        there = (
            f"has answers {', '.join(map(str, group))}" if group else "is not there, or kept none"
        )
        raise MetisError(f"--answer {named!r}: this group {there}")
    return one


def answer(folder: Path, named: str) -> Iterator[RenderableType]:
    """An answer with the messages before it and its turns."""
    one = found(folder, named)
    yield _facts(one.row)
    if reference := one.head.get("reference"):
        yield Text.assemble(("expected\n", "bold"), printable(str(reference)))
    for message in (*kept.asked(*one), *kept.messages(one.row)):
        role = f"example: {message['role']}" if message.get("example") else message["role"]
        yield Text.assemble((f"{printable(role)}\n", "bold"), printable(message["content"]))


def listed(
    folder: Path, step: int, prompt: str, kind: str | None = None
) -> Iterator[RenderableType]:
    """The answers of a group: how each ends, and what it earned."""
    group = said(folder, kind or main_kind(folder), step, prompt)
    if not group:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    for name in ("answer", "reward", "tokens", "ends with"):
        table.add_column(name, overflow="fold")
    for number, (_, row) in group.items():
        end = " ".join(kept.text(row)[-4 * LAST :].split())[-LAST:]
        reward = _number(row.get("reward")) or printable(str(row.get("failure") or ""))
        tokens = _number(row.get("tokens")) + (" truncated" if row.get("truncated") else "")
        table.add_row(str(number), reward, tokens, printable(end))
    named = f"{kind}/{step}" if kind else str(step)
    table.caption = f"--answer {named}/{prompt}/{next(iter(group))} shows one with its turns"
    yield table


def main_kind(folder: Path) -> str:
    """The kind of answers that a folder is about."""
    logs = {"outcomes": "survey", "answers": "eval"}
    found = (kind for log, kind in logs.items() if log_file(folder, log).exists())
    return next(found, "train")


def said(folder: Path, kind: str, step: int, prompt: str) -> dict[int, Said]:
    """The answers to a prompt in a step, by number."""
    answers: dict[int, Said] = {}
    for head, rows in groups(folder, kind, step):
        if printable(str(head.get("prompt"))) == prompt:
            answers |= {row.get("rollout", nth): Said(head, row) for nth, row in enumerate(rows)}
    return answers


def groups(folder: Path, kind: str, step: int) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    """Heads and rows of the groups of a step: of its transcript, or else of a log."""
    file = folder / transcripts.FOLDER / transcripts.file_name(kind, step)
    members = transcripts.segment_members(file) if file.is_file() else ()
    kept_there = [(member.head, member.rows) for member in members]
    for head, rows in kept_there or _logged(folder, kind):
        if head.get("step") == step:
            yield head, rows


def _logged(folder: Path, kind: str) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    if kind == "train":
        rows = run_folder.log_rows(folder, "rollouts", optional=True)
        yield from map(kept.of_group, rows)
    elif kind == "eval":
        yield from map(kept.of_problem, run_folder.log_rows(folder, "answers", optional=True))


def _facts(row: Row) -> Table:
    facts = Table.grid(padding=(0, 2))
    for name in ("reward", "score", "tokens", "truncated", "failure"):
        value = row.get(name)
        if value is not None and value is not False and value != "":
            facts.add_row(name, _number(value) or printable(str(value)))
    for name, value in (row.get("parts") or {}).items():
        facts.add_row(printable(str(name)), printable(textwrap.shorten(str(value), 200)))
    return facts


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
