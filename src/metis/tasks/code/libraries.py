"""Libraries that programs can import in the sandbox, besides the standard library."""

from collections.abc import Iterable

from metis.tasks.code.pool import shared
from metis.tasks.code.tests import Limits, Script

LOADING = Limits(cpu_seconds=30.0, wall_seconds=60.0, memory_mb=4096, processes=64)
"""Limits for importing a library."""
_found: dict[str, bool] = {}


def missing(names: Iterable[str]) -> set[str]:
    """Modules that cannot be imported in the sandbox; each is tried once per process."""
    wanted = set(names)
    unknown = sorted(wanted - _found.keys())
    if unknown:
        tests = [Script(f"import {name}") for name in unknown]
        results = shared().run("", tests, LOADING).outcome.results
        _found.update(zip(unknown, (result.passed for result in results), strict=True))
    return {name for name in wanted if not _found[name]}
