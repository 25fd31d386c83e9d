"""A finished run in a few lines: its diagnosis, the use of the time, and where to look."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from metis.diagnosis import DiagnosisLine, lines
from metis.report.tables import duration, trusted
from metis.run.recorded import Recorded, read_run


def summary(folder: Path) -> list[str]:
    """The diagnosis of a run, the use of its time, its folder, and commands that look at it."""
    run = read_run(folder)
    said = [text for line in lines(run) for text in _lines(line)]
    return [*said, _took(run), f"run folder: {folder}", _next(run)]


def _lines(line: DiagnosisLine) -> Iterator[str]:
    yield f"{line.question} {line.text}"
    if line.command:
        yield f"  {line.command}"


def _next(run: Recorded) -> str:
    """The commands that look at a run; a simulated one leaves no model to evaluate."""
    where = shlex.quote(str(run.folder))
    names = ("report", "inspect", "view", *(() if run.simulated else ("eval",)))
    return f"next: {' · '.join(f'metis {name} {where}' for name in names)}"


def _took(run: Recorded) -> str:
    parts = [f"{seconds / run.elapsed:.0%} {name}" for name, seconds in run.phases.items()]
    line = f"{duration(run.elapsed, run.simulated)} of training"
    line += f": {', '.join(parts)}" if parts else ""
    return line if run.judge_share is None else f"{line}; {trusted(run)}"
