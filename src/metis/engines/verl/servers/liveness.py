"""A heartbeat: notices when one of verl's workers has died."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import ray

from metis.errors import MetisError

INTERVAL = 15.0
"""Seconds between looks while something is waited for."""
PATIENCE = 5.0
"""Seconds that a worker has to answer: one that does not may be busy."""


LOOP = "an agent-loop worker"
SERVER = "a rollout server"
REWARD = "a reward worker"


@contextmanager
def asking(kind: str) -> Iterator[None]:
    """A guard around calls to workers of a kind: one that died is the error."""
    try:
        yield
    except ray.exceptions.RayActorError as error:
        raise MetisError(
            f"{kind} died ({type(error).__name__}): the last checkpoint is whole, and the same "
            "command goes on there"
        ) from None


class Liveness:
    """Looks at workers, which are Ray actors, by kind; one that died ends the run.

    What it was to do would be waited for without end, or fail, and so would a part of all that
    follows: verl starts no other in its place.
    """

    def __init__(self, workers: Mapping[str, Callable[[], Sequence[Any]]]) -> None:
        self.workers = workers
        self.checked = time.monotonic()

    @classmethod
    def of(cls, trainer: Any) -> Self:
        return cls(
            {
                LOOP: lambda: trainer.agent_loop_manager.agent_loop_workers,
                SERVER: lambda: trainer.llm_server_manager.server_handles,
                REWARD: lambda: trainer.reward_loop_manager.reward_loop_workers,
            }
        )

    def check(self) -> None:
        """Looks, unless it has just done so."""
        if time.monotonic() - self.checked > INTERVAL:
            self.check_now()

    def check_now(self) -> None:
        for kind, workers in self.workers.items():
            asked = [worker.__ray_ready__.remote() for worker in workers()]
            if asked:
                with asking(kind):
                    ray.get(ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)[0])
        self.checked = time.monotonic()
