"""Engines answer what a plan asks for, and update the policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from metis.core.pool import Pool
from metis.engines import simulated
from metis.engines.local.settings import Local
from metis.engines.verl.settings import Verl
from metis.errors import MetisError, install
from metis.run.waiting import Say
from metis.tasks.base import Task

EngineSettings = Local | Verl | simulated.Simulation


class EngineEntry(NamedTuple):
    """The settings of an engine, how its pool is made, settings, task, seed, data seed -> pool, and
    how it is built: settings, task, seed, data seed, say -> engine.

    A pool needs no model. `say` takes lines for a person who waits for the engine.

    One that trains in processes of its own is launched instead: config, run folder, whether to
    print only -> exit code.
    """

    settings: type[Any]
    pool: Callable[[Any, Any, int, int], Pool]
    build: Callable[[Any, Any, int, int, Say], Any] | None
    plays_tasks: bool
    launch: Callable[[Any, Path, bool], int] | None = None


def _task_pool(settings: Local | Verl, task: Task, seed: int, data_seed: int) -> Pool:
    return Pool(task.training(), task.rewards, seed)


def _simulated_pool(settings: simulated.Simulation, task: None, seed: int, data_seed: int) -> Pool:
    return simulated.build(settings, seed, data_seed)[1]


def _build_simulated(
    settings: simulated.Simulation, task: None, seed: int, data_seed: int, say: Say
) -> Any:
    return simulated.build(settings, seed, data_seed)[0]


def _build_local(settings: Local, task: Any, seed: int, data_seed: int, say: Say) -> Any:
    try:
        from metis.engines.local.engine import LocalEngine
    except ImportError as error:
        raise MetisError(
            f"engine = 'local': {error}: {install('local')}, or use engine=simulated"
        ) from None
    return LocalEngine(settings, task, seed, say)


def _launch_verl(config: Any, out: Path, dry_run: bool) -> int:
    from metis.engines.verl.launch.command import launch

    return launch(config, out, dry_run)


ENGINES: dict[str, EngineEntry] = {
    "local": EngineEntry(Local, _task_pool, _build_local, plays_tasks=True),
    "simulated": EngineEntry(
        simulated.Simulation, _simulated_pool, _build_simulated, plays_tasks=False
    ),
    "verl": EngineEntry(Verl, _task_pool, None, plays_tasks=True, launch=_launch_verl),
}
