"""The start of a run, by the training loop of this process or by the trainer its engine brings."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from metis import loop
from metis.config import Config
from metis.engines import ENGINES
from metis.loop import OnStep, View
from metis.run.budget import Budget
from metis.run.waiting import Say


class Trainer(Protocol):
    """Trains a run in its folder; a module that has these functions is one.

    foreseen  refuses what a start would refuse before a model is loaded; remarks on the rest
    command   the command line that a start runs, for a person to copy; none in this process
    finished  true if the latest checkpoint of a folder is at the end of a budget
    conduct   trains; an exit code
    """

    def foreseen(self, config: Config, out: Path) -> Iterator[str]: ...

    def command(self, config: Config, out: Path) -> str: ...

    def finished(self, out: Path, budget: Budget) -> bool: ...

    def conduct(
        self,
        config: Config,
        out: Path,
        view: AbstractContextManager[View],
        on_step: OnStep | None,
        say: Say,
    ) -> int: ...


def trainer(engine: str) -> Trainer:
    """The trainer of an engine."""
    entry = ENGINES.get(engine)
    own: Trainer | None = entry.trainer() if entry and entry.trainer else None
    return own or loop


def start(
    config: Config,
    out: Path,
    view: AbstractContextManager[View],
    on_step: OnStep | None = None,
    say: Say = print,
) -> int:
    """Train a run, or what is left of it: exit code 0 at its end, 130 after Ctrl-C.

    Others are of processes that the trainer started. `view` shows a run in this process, and `say`
    takes what is to be said without it.
    """
    return trainer(config.engine_name).conduct(config, out, view, on_step, say)
