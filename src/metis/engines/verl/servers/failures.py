"""Errors of a rollout server's engine, kept inside the server.

Ray runs these functions in the server's actor. vLLM raises an error of its workers where they were
called, which for weight sync is an actor worker that waits for something else (`weight_sync`).
"""

import functools
from typing import Any

from metis.errors import first_line


def keep(server: Any) -> None:
    """Keep the errors of calls to the workers of the engine, where it has such calls (vLLM)."""
    engine = getattr(server, "engine", None)
    call = getattr(engine, "collective_rpc", None)
    if engine is None or call is None:
        return

    @functools.wraps(call)
    async def keeping(*arguments: Any, **options: Any) -> Any:
        try:
            return await call(*arguments, **options)
        except Exception as error:
            _kept.append(f"{type(error).__name__}: {first_line(error)}")
            raise

    engine.collective_rpc = keeping


def take(server: Any) -> list[str]:
    """The errors since the last call."""
    taken = list(_kept)
    _kept.clear()
    return taken


_kept: list[str] = []
