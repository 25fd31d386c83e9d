"""Training as a library call: what `metis train` does, from Python."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis import config
from metis.commands import plain_console
from metis.config.objects import as_settings
from metis.core import Curriculum
from metis.errors import MetisError, require
from metis.loop import INTERRUPTED, Log, Numbers, OnStep, View
from metis.run import folder as run_folder
from metis.run import models
from metis.settings.sections import curriculum_of
from metis.start import start


@dataclass(frozen=True)
class TrainedRun:
    """The result of `train`: the run folder and its contents."""

    path: Path
    config: dict[str, Any]
    finished: bool
    """False after Ctrl-C; the same call resumes it."""

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every step, as in `metrics.jsonl`; see docs/metrics.md."""
        return run_folder.read_log(self.path, "metrics")

    @property
    def accuracy(self) -> float:
        """The accuracy of the last validation."""
        return float([row["eval/accuracy"] for row in self.metrics if "eval/accuracy" in row][-1])

    @property
    def model(self) -> Path:
        """The folder of the best checkpoint, or else the last, for `from_pretrained`."""
        checkpoint = models.find_checkpoint(self.path)
        if checkpoint is None:
            raise MetisError(f"{str(self.path)!r} is no longer a run folder: train it again")
        return checkpoint.model

    def export(
        self, target: str | Path, checkpoint: str = "", dtype: str = "", adapter: bool = False
    ) -> Path:
        """Export a checkpoint as a model, as `metis export` does; returns its folder."""
        from metis.export.write import export

        export(self.path, Path(target), checkpoint, dtype, adapter, say=lambda text: None)
        return Path(target)

    def report(self) -> Path:
        """Write `report.html`, figures and a table into the run folder; returns the page's path."""
        from metis import report

        report.write([self.path], None)
        return self.path / "report.html"


def train(
    recipe: str | Path | None = None,
    *,
    model: str | Path | None = None,
    out: str | Path,
    on_step: OnStep | None = None,
    show: bool = True,
    **settings: Any,
) -> TrainedRun:
    """Train a policy with a curriculum; calling it again resumes, or returns the finished run.

        metis.train(model="Qwen/Qwen2.5-0.5B-Instruct", task={"name": "file", "path": "sums.jsonl"},
                    curriculum="metis", steps=100, out="runs/sums")

    recipe    a TOML file, or the config.json of a run; without one the quickstart, or the defaults
              if another engine or task is named
    model     a folder, a run, or a name on the hub: `engine.model`
    out       the run folder
    on_step   called with the number and the metrics of every step
    show      draw the run on the terminal, as the command does
    settings  any other setting of a recipe: `steps=200`, and sections by name or as a mapping,
              such as `curriculum={"name": "metis", "preset": "paper"}`; your own task or
              curriculum as a class or an instance, a `reward` as a function

    Wrong settings raise a `MetisError` before anything is loaded.
    """
    if model is not None:
        settings["engine"] = {**_mapping(settings.get("engine", {})), "model": str(model)}
    run_config = config.assemble(
        Path(recipe) if recipe else None, list(_flat(as_settings(settings)))
    )
    for notice in run_config.notices:
        print(f"metis: {notice}", file=sys.stderr)
    path = Path(out)
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


def _mapping(section: Any) -> dict[str, Any]:
    if isinstance(section, str):
        return {"name": section}
    require(isinstance(section, Mapping), "engine", section, "give a name or a mapping")
    return dict(section)


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings as dotted keys and values; a section's `name` is set by the section's own key."""
    for key, value in settings.items():
        if not isinstance(value, Mapping):
            yield key, _plain(value)
            continue
        for name, part in value.items():
            if key == "curriculum" and isinstance(part, Mapping):
                yield from ((f"{key}.{name}.{inner}", setting) for inner, setting in part.items())
            else:
                yield (key if name == "name" else f"{key}.{name}"), _plain(part)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


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
