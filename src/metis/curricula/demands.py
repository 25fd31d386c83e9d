"""Pools that a curriculum cannot work with are refused before anything runs."""

from typing import Protocol, runtime_checkable

from metis.core import Curriculum
from metis.errors import MetisError
from metis.pool import Pool


@runtime_checkable
class Demanding(Protocol):
    """A curriculum that not every pool will do for: it says so before anything runs."""

    def check(self, pool: Pool) -> None: ...


def check_pool(pool: Pool, curriculum: Curriculum, batch: int) -> None:
    """Refuse a pool that a curriculum cannot work with."""
    if batch > len(pool):
        raise MetisError(
            f"batch = {batch}: the pool has only {len(pool)} prompts; use a smaller batch or a "
            "larger pool"
        )
    if isinstance(curriculum, Demanding):
        curriculum.check(pool)
