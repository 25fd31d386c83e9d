"""Engines answer what a plan asks for, and update the policy."""

from collections.abc import Callable
from typing import Any, NamedTuple

from metis.engines import simulated
from metis.pool import Pool


class EngineEntry(NamedTuple):
    """The settings of an engine, and how it is built from them: settings, seed -> engine, pool."""

    settings: type[Any]
    build: Callable[[Any, int], tuple[Any, Pool]]


ENGINES: dict[str, EngineEntry] = {
    "simulated": EngineEntry(simulated.Simulation, simulated.build),
}
