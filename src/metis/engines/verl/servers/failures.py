"""Records errors of vLLM's workers inside a rollout server.

Ray runs these functions in the server's actor. Otherwise an error during weight sync is raised only
there, while the sending actor worker waits forever (`weight_sync`).
"""

import functools
from typing import Any

from metis.errors import first_line


def keep(server: Any) -> None:
    """Record errors of the engine's collective_rpc (vLLM)."""
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
    """Return and clear the recorded errors."""
    taken = list(_kept)
    _kept.clear()
    return taken


_kept: list[str] = []
