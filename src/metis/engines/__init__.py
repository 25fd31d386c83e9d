"""Engines answer what a plan asks for, and update the policy."""

from collections.abc import Callable
from typing import Any, NamedTuple

from metis.engines import simulated
from metis.engines.local.settings import Local
from metis.errors import MetisError
from metis.pool import Pool


class EngineEntry(NamedTuple):
    """The settings of an engine, and how it is built: settings, task, seed -> engine, pool."""

    settings: type[Any]
    build: Callable[[Any, Any, int], tuple[Any, Pool]]
    plays_tasks: bool


def _build_local(settings: Local, task: Any, seed: int) -> tuple[Any, Pool]:
    try:
        from metis.engines.local.engine import build
    except ImportError as error:
        raise MetisError(
            f"engine = 'local': {error}: pip install 'metis-rft[local]', or use engine=simulated"
        ) from None
    return build(settings, task, seed)


ENGINES: dict[str, EngineEntry] = {
    "local": EngineEntry(Local, _build_local, plays_tasks=True),
    "simulated": EngineEntry(simulated.Simulation, simulated.build, plays_tasks=False),
}
