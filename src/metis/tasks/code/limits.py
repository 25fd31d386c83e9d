"""Bounds of a program, each of which holds for one test."""

from dataclasses import dataclass

from metis.errors import require, require_at_least


@dataclass(frozen=True)
class Limits:
    """Bounds of one test.

    cpu_seconds: of all its processes together, as seen every 25 ms.
    wall_seconds: from start to end; a test that is not over by then is killed.
    memory_mb: resident, of all its processes together, as seen every 25 ms; and of each one's
        address space.
    processes: at one time, threads included.
    file_mb: of all its files together, and of each.
    output_kb: on stdout, and of a returned value.
    timeouts: after so many of a program, its other tests are not run and count as such; 0 runs all.
    """

    cpu_seconds: float = 10.0
    wall_seconds: float = 20.0
    memory_mb: int = 1024
    processes: int = 32
    file_mb: int = 32
    output_kb: int = 4096
    timeouts: int = 0

    def __post_init__(self) -> None:
        least = {"memory_mb": 64, "processes": 1, "file_mb": 1, "output_kb": 1, "timeouts": 0}
        require_at_least(self, least, "limits.")
        for name in ("cpu_seconds", "wall_seconds"):
            value = getattr(self, name)
            require(value > 0, f"limits.{name}", value, "use more than 0")
