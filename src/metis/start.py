"""Starts a run, with METIS's training loop or with the engine's own trainer (verl)."""

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
    """Trains a run in its folder; implemented by modules with these functions.

    foreseen  runs the checks of a start without loading a model; yields remarks
    command   the command line that a start runs, to copy; empty if this process trains
    finished  true if the latest checkpoint of a folder has used up the budget
    conduct   trains; returns an exit code
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
    """Train or resume a run: exit code 0 at its end, 130 after Ctrl-C.

    Other codes come from processes that the trainer started. `view` shows the run, `say` prints
    lines outside the view.
    """
    return trainer(config.engine_name).conduct(config, out, view, on_step, say)
