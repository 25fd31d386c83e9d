"""The progress of an evaluation: a bar on a terminal, a line for every tenth elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metis.evals.suite import Evaluation
from metis.tasks.benchmarks.scoring import FAITHFUL


class EvaluationView:
    """Counts answered problems, and the score of each benchmark so far."""

    def __init__(self, console: Console, evaluation: Evaluation) -> None:
        self.console, self.count = console, evaluation.count
        self.titles = {each.name: each.title for each in evaluation.sets}
        self.errors: set[str] = set()
        self.done = self.tenth = 0
        self.values: dict[str, list[float]] = {}
        self.bar = Progress(
            TextColumn("problem"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=self.count)

    def __enter__(self) -> "EvaluationView":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def advance(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.done += len(rows)
        line = ""
        for row in rows:
            title = self.titles[row["benchmark"]]
            values = self.values.setdefault(title, [])
            values += [answer["scores"][FAITHFUL] for answer in row["answers"]]
            line = f"{title} {sum(values) / len(values):.1%}"
            self._tell(row)
        self.bar.update(self.task, completed=self.done, description=line)
        tenth = 10 * self.done // self.count
        if not self.console.is_terminal and tenth > self.tenth:
            self.console.print(f"{self.done:,} of {self.count:,} problems · {line}")
        self.tenth = tenth

    def _tell(self, row: Mapping[str, Any]) -> None:
        """Say why an answer failed, once for each reason."""
        for answer in row["answers"]:
            error = answer.get("error", "")
            if error and error not in self.errors:
                self.errors.add(error)
                self.console.print(f"{row['problem']} failed, which counts as 0: {error}")
