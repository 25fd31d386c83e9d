"""The opening of a report: title, one line about the run, diagnosis."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from metis.diagnosis import DiagnosisLine, lines
from metis.report import svg
from metis.report.html import unbroken
from metis.report.reproduce import place
from metis.run.recorded import Recorded
from metis.text import plain

HEALTHY = "Nothing stands out in its numbers."


def title(runs: Sequence[Recorded]) -> str:
    """The title of a page: a run by its folder and curriculum."""
    if len(runs) > 1:
        return f"{len(runs)} runs: {', '.join(dict.fromkeys(run.curriculum for run in runs))}"
    return f"{runs[0].folder.resolve().name} · {runs[0].curriculum}"


def summary(run: Recorded, steps: str = "") -> str:
    """One line about a run: engine, model, task and size."""
    parts = [f"{run.named('engine') or 'unknown'} engine"]
    parts += [f"model {run.named('model')}"] if run.named("model") else []
    parts += [f"task {_task(run)}"] if run.named("task") else []
    parts.append(f"{steps or format(run.planned, ',')} steps")
    batch, group = run.config.get("batch"), run.config.get("group")
    if batch is not None and group is not None:
        parts.append(f"batches of {batch} prompts × {group} rollouts")
    return " · ".join(parts)


def _task(run: Recorded) -> str:
    """The name of a task; of problems in a file the file's."""
    name, section = run.named("task"), run.config.get("task")
    path: Any = section.get("path") if isinstance(section, dict) else None
    return Path(path).name if name == "file" and path else name


def diagnosis(runs: Sequence[Recorded]) -> Iterator[str]:
    """The diagnosis of one run, or of each of several in short."""
    if len(runs) == 1:
        yield _described(lines(runs[0], place(runs[0].folder)))
        return
    for colour, run in enumerate(runs):
        said = lines(run, place(run.folder))
        short = [line for line in said if line.kind in ("learnt", "advice")]
        name = f'<span class="swatch {svg.run_class(colour)}"></span>{escape(run.label)}'
        yield f'<section class="diagnosis"><h2>{name}</h2>{_answers(short)}</section>'


def markdown(runs: Sequence[Recorded]) -> str:
    """The diagnosis of one run as Markdown; of several the page has it."""
    if len(runs) > 1:
        return ""
    said = lines(runs[0], place(runs[0].folder))
    parts = []
    for question, answers in groupby(said, key=lambda line: line.question):
        for number, line in enumerate(answers):
            heading = "" if number else f"**{question}** "
            command = f"\n    {line.command}\n" if line.command else ""
            parts.append(f"{heading}{plain(line.text)}\n{command}")
    return "\n".join(parts) + "\n"


def _described(said: Sequence[DiagnosisLine]) -> str:
    healthy = all(line.kind != "advice" for line in said)
    nothing = [DiagnosisLine("advice", HEALTHY)] if healthy else []
    return f'<section class="diagnosis">{_answers([*said, *nothing])}</section>'


def _answers(said: Sequence[DiagnosisLine]) -> str:
    """Questions, and the lines that answer them."""
    parts = []
    for question, answers in groupby(said, key=lambda line: line.question):
        parts.append(f"<dt>{escape(question)}</dt>")
        parts += [f"<dd>{_answer(line)}</dd>" for line in answers]
    return f"<dl>{''.join(parts)}</dl>"


def _answer(line: DiagnosisLine) -> str:
    command = f"<pre>{escape(line.command)}</pre>" if line.command else ""
    return f"{escape(unbroken(line.text))}{command}"
