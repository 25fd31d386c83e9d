"""`metis inspect --json`: what its tables are made of, as the logs and transcripts have it."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from metis.errors import MetisError
from metis.run.folder import log_rows
from metis.run.recorded import Recorded, read_run
from metis.text import printable
from metis.view import inspection, kept, turns

Row = dict[str, Any]


def inspected(
    folder: Path, step: int | None, prompt: str | None, everyone: bool, answer: str | None
) -> Any:
    """The steps of a run, the prompts of a step, the steps of a prompt, or one of these with its
    answers, or an answer."""
    inspection.require_run(folder)
    if answer is not None:
        head, row = turns.found(folder, answer)
        return {**head, **row, "messages": kept.asked(head, row), "said": kept.messages(row)}
    kind, at, once = turns.main_kind(folder), step or 0, kept.groups_asked_once(folder)
    if once is None:
        run = read_run(folder)
        if step is None and prompt is None:
            return run.metrics
        if step == 0 and (tested := inspection.first_validation(run)):
            kind, once = "eval", tested
        else:
            return _of_run(run, step, prompt, everyone)
    return _chosen(list(_with_heads(folder, kind, at, once)), folder, kind, prompt)


def _of_run(run: Recorded, step: int | None, prompt: str | None, everyone: bool) -> Any:
    if step is not None:
        inspection.require_step(run, step)
    found: dict[tuple[int, str], Row] = {}
    for log in ("judgments", "rollouts"):
        for row in log_rows(run.folder, log, optional=True):
            if step in (None, row["step"]) and _is(prompt, row):
                found.setdefault((row["step"], row["prompt"]), {}).update(row)
    texts = {
        row["prompt"]: str(row.get("text", ""))
        for row in log_rows(run.folder, "prompts", optional=True)
    }
    rows = [{"text": texts.get(name, ""), **row} for (_, name), row in sorted(found.items())]
    if step is None:
        if not rows:
            raise MetisError(f"--prompt {printable(prompt or '')!r}: the run has no such prompt")
        return rows
    shown = [row for row in rows if everyone or prompt or row.get("chosen", "rewards" in row)]
    return _chosen(list(_with_heads(run.folder, "train", step, shown)), run.folder, "train", prompt)


def _is(prompt: str | None, row: Row) -> bool:
    """True if a row is about this prompt, named by its id or as it is printed."""
    return prompt is None or printable(prompt) == printable(str(row["prompt"]))


def _with_heads(folder: Path, kind: str, step: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Prompts of a step with what was asked and what is expected, where transcripts have it."""
    heads = {head.get("prompt"): head for head, _ in turns.groups(folder, kind, step)}
    for row in rows:
        head: Mapping[str, Any] = heads.get(row["prompt"], {})
        yield {
            **row,
            "text": row.get("text") or kept.question(head),
            "expected": str(head.get("reference") or ""),
        }


def _chosen(rows: list[Row], folder: Path, kind: str, prompt: str | None) -> Any:
    """All of them, or a prompt with its answers."""
    if prompt is None:
        return rows
    found = next((row for row in rows if _is(prompt, row)), None)
    if found is None:
        raise MetisError(f"--prompt {printable(prompt)!r}: there is no such prompt; see --all")
    group = turns.said(folder, kind, found["step"], printable(prompt))
    return {**found, "answers": [row for _, row in group.values()]}
