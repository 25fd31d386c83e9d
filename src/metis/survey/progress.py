"""Shows how far a survey has come: a bar on a terminal, a line now and then anywhere else."""

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metis.report.tables import duration
from metis.run.waiting import Heartbeat

WAIT = 30.0
"""Seconds without a line after which there is one."""


class SurveyView:
    """Counts rollouts of `total`; the first part of them that is saved gives an estimate."""

    def __init__(
        self, console: Console, total: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console, self.total, self.clock = console, total, clock
        self.began = self.printed = clock()
        self.saved = self.before = self.played = 0
        self.bars = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bars.add_task("rollouts", total=total)
        self.heartbeat = Heartbeat(self.beat)

    def __enter__(self) -> Self:
        self.bars.start()
        self.heartbeat.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.heartbeat.__exit__()
        self.bars.stop()

    def resume(self, done: int) -> None:
        """Take up what an earlier call has saved."""
        self.before = done
        self.save(done)

    def save(self, done: int) -> None:
        """So many rollouts are saved."""
        first = self.saved <= self.before < done < self.total
        self.saved, self.played = done, 0
        self.bars.update(self.task, completed=done)
        if first:
            self._print()

    def play(self, played: int) -> None:
        """So many rollouts have ended since the last were saved; any thread may say so."""
        self.played = played
        self.bars.update(self.task, completed=self.saved + played)

    def beat(self) -> None:
        if self.clock() - self.printed >= WAIT:
            self._print()

    def say(self, what: str) -> None:
        """Name what follows the rollouts."""
        self.bars.update(self.task, description=what)
        if not self.console.is_terminal:
            self.console.print(what)

    def _print(self) -> None:
        self.printed = self.clock()
        if self.console.is_terminal:
            return
        done, spent = self.saved + self.played, self.printed - self.began
        line = f"{done:,} of {self.total:,} rollouts"
        if self.saved > self.before:
            pace = spent / (done - self.before)
            line += f" · about {duration(pace * (self.total - done))} left"
        self.console.print(line)
