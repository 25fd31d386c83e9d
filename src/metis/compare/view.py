"""Shows how the runs of a comparison go on: bars on a terminal, lines anywhere else."""

import contextlib
import threading
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from metis.errors import MetisError
from metis.run import folder as run_folder

PERIOD = 1.0
"""Seconds between two looks at the logs."""


class ComparisonView:
    """A bar for every run that goes on; a line for every one that has begun or ended."""

    def __init__(self, console: Console, runs: int) -> None:
        self.console, self.runs, self.done = console, runs, 0
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_interactive,
        )
        self.tasks: dict[str, tuple[TaskID, Path]] = {}
        self.closing = threading.Event()
        self.looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "ComparisonView":
        self.bars.start()
        self.looking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.closing.set()
        self.looking.join()
        self.bars.stop()

    def began(self, run: str, folder: Path, steps: int) -> None:
        task = self.bars.add_task(run, total=steps or None, note="loading")
        self.tasks[run] = task, folder
        if not self.console.is_interactive:
            self.console.print(f"{run}: begun")

    def ended(self, run: str, failure: str | None) -> None:
        self.done += 1
        task, folder = self.tasks.pop(run)
        self.bars.remove_task(task)
        step, accuracy = progress(folder)
        said = f"failed: {failure}" if failure is not None else f"step {step:,}{accuracy}"
        self.console.print(f"{run}: {said} ({self.done} of {self.runs})")

    def _look(self) -> None:
        while not self.closing.wait(PERIOD):
            for task, folder in list(self.tasks.values()):
                step, accuracy = progress(folder)
                if step or accuracy:
                    self.bars.update(task, completed=step, note=accuracy.removeprefix(", "))


def progress(folder: Path) -> tuple[int, str]:
    """Steps done, and the last test in words, as far as the log of a run has them."""
    step, accuracy = 0, ""
    with contextlib.suppress(MetisError):  # a damaged log is for the comparison to name
        for row in run_folder.read(folder, "metrics", optional=True):
            step = row["step"]
            if "eval/accuracy" in row:
                accuracy = f", accuracy {row['eval/accuracy']:.3f} at step {step}"
    return step, accuracy
