"""Engines answer what a plan asks for, and update the policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from metis.core.pool import Pool
from metis.engines import simulated
from metis.engines.local.settings import Local
from metis.engines.verl.settings import Verl
from metis.errors import MetisError
from metis.run.waiting import Say

EngineSettings = Local | Verl | simulated.Simulation


class EngineEntry(NamedTuple):
    """The settings of an engine, and how it is built: settings, task, seed, data seed, say ->
    engine, pool.

    `say` takes lines for a person who waits for it.

    One that trains in processes of its own is launched instead: config, run folder, whether to
    print only -> exit code.
    """

    settings: type[Any]
    build: Callable[[Any, Any, int, int, Say], tuple[Any, Pool]] | None
    plays_tasks: bool
    launch: Callable[[Any, Path, bool], int] | None = None


def _build_local(
    settings: Local, task: Any, seed: int, data_seed: int, say: Say
) -> tuple[Any, Pool]:
    try:
        from metis.engines.local.engine import build
    except ImportError as error:
        raise MetisError(
            f"engine = 'local': {error}: pip install 'metis-rft[local]', or use engine=simulated"
        ) from None
    return build(settings, task, seed, say)


def _launch_verl(config: Any, out: Path, dry_run: bool) -> int:
    from metis.engines.verl.launch.command import launch

    return launch(config, out, dry_run)


ENGINES: dict[str, EngineEntry] = {
    "local": EngineEntry(Local, _build_local, plays_tasks=True),
    "simulated": EngineEntry(simulated.Simulation, simulated.build, plays_tasks=False),
    "verl": EngineEntry(Verl, None, plays_tasks=True, launch=_launch_verl),
}
