"""What a person sees of an evaluation: a bar on a terminal, a line for every tenth elsewhere."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metis.evals.benchmarks import ProblemSet
from metis.evals.scoring import FAITHFUL


class EvaluationView:
    """Counts answered problems, and the score of each benchmark so far."""

    def __init__(self, console: Console, count: int) -> None:
        self.console, self.count = console, count
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
        self.task = self.bar.add_task("", total=count)

    def __enter__(self) -> "EvaluationView":
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def advance(self, benchmark: ProblemSet, rows: Sequence[Mapping[str, Any]]) -> None:
        self.done += len(rows)
        values = self.values.setdefault(benchmark.title, [])
        values += [answer["scores"][FAITHFUL] for row in rows for answer in row["answers"]]
        line = f"{benchmark.title} {sum(values) / len(values):.1%}"
        self.bar.update(self.task, completed=self.done, description=line)
        tenth = 10 * self.done // self.count
        if not self.console.is_terminal and tenth > self.tenth:
            self.console.print(f"{self.done:,} of {self.count:,} problems · {line}")
        self.tenth = tenth
