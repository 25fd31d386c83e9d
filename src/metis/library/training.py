"""`metis.train`, which does what `metis train` does, and `metis.curriculum`."""

import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from metis import config
from metis.commands import plain_console
from metis.core import Curriculum
from metis.errors import MetisError
from metis.library.run import TrainedRun
from metis.library.settings import assembled, gathered, require_here
from metis.loop import INTERRUPTED, Log, Numbers, OnStep, View
from metis.settings.sections import curriculum_of
from metis.start import start


def train(
    recipe: str | Path | None = None,
    *,
    model: str | Path | None = None,
    data: Any = None,
    reward: Any = None,
    out: str | Path,
    on_step: OnStep | None = None,
    show: bool = True,
    **settings: Any,
) -> TrainedRun:
    """Train a policy with a curriculum; calling it again resumes, or returns the finished run.

        metis.train(
            model="Qwen/Qwen2.5-0.5B-Instruct",
            data=rows,
            reward=score,
            curriculum="metis",
            steps=100,
            out="runs/sums",
        )

    recipe    a TOML file, or the config.json of a run; without one the quickstart, or the defaults
              if another engine or task is named
    model     a folder, a run, or a name on the hub: `engine.model`
    data      rows as mappings (a list, a `datasets.Dataset`), kept in the run folder; or a path
    reward    a function that scores an answer, or its import string (docs/own-reward.md)
    out       the run folder
    on_step   called with the number and the metrics of every step
    show      draw the run on the terminal, as the command does
    settings  any other setting of a recipe: `steps=200`, and sections by name or as a mapping,
              such as `curriculum={"name": "metis", "preset": "paper"}`; your own task or
              curriculum as a class or an instance

    Wrong settings raise a `MetisError` before anything is loaded.
    """
    path = Path(out)
    with gathered(settings, model, data, reward, path) as given:
        run_config = assembled(recipe, given)
        require_here(run_config)
        say = print if show else logging.getLogger("metis").info
        code = start(run_config, path, _view(run_config, path, show), on_step, say)
    if code not in (0, INTERRUPTED):
        raise MetisError(f"engine = {run_config.engine_name!r} ended with exit code {code}")
    return TrainedRun(path, run_config.resolved, finished=code == 0)


def curriculum(
    name: str = "metis", *, batch: int = 32, group: int = 8, preset: str = "", **settings: Any
) -> Curriculum:
    """A curriculum by name, for your own training loop.

    metis.curriculum("metis", preset="paper", batch=64, group=8, judge="direct")
    """
    section = {"name": name, **({"preset": preset} if preset else {}), **settings}
    return curriculum_of(section, batch, group)


def _view(run_config: config.Config, path: Path, show: bool) -> AbstractContextManager[View]:
    if not show:
        return nullcontext(Unseen())
    from metis.view import TerminalView, heading

    console = plain_console()
    return TerminalView(console, heading(run_config, path), run_config.training.evaluate)


class Unseen:
    """A view that shows nothing: notices go to the logger `metis`."""

    def resume(self, step: int, fraction: float, metrics: Log, timings: Log) -> None:
        pass

    def phase(self, name: str) -> None:
        pass

    def count(self, done: int, total: int) -> None:
        pass

    def step(self, step: int, fraction: float, metrics: Numbers, seconds: Numbers) -> None:
        pass

    def notice(self, step: int, text: str) -> None:
        logging.getLogger("metis").warning("step %d: %s", step, text)

    def stopping(self) -> None:
        pass
