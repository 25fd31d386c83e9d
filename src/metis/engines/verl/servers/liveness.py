"""Detects that one of verl's Ray workers has died."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import ray

from metis.errors import MetisError

INTERVAL = 15.0
"""Seconds between checks while waiting."""
PATIENCE = 5.0
"""Seconds to wait for an answer; a worker that does not answer may be busy."""

LOOP = "an agent-loop worker"
SERVER = "a rollout server"
REWARD = "a reward worker"


class WorkerDied(MetisError):
    """One of verl's workers died, by itself or with its node."""


@contextmanager
def asking(kind: str) -> Iterator[None]:
    """Turn the death of a worker, during calls to it, into a WorkerDied."""
    try:
        yield
    except ray.exceptions.RayActorError as error:
        raise WorkerDied(
            f"{kind} died ({type(error).__name__}): the last checkpoint is complete, and the same "
            "command resumes from it"
        ) from None


class Liveness:
    """Checks Ray actors by kind; one that died ends the run.

    verl does not restart it: the run would hang, or a share of all rollouts would fail.
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
        """Check, at most once per interval."""
        if time.monotonic() - self.checked > INTERVAL:
            self.check_now()

    def check_now(self) -> None:
        for kind, workers in self.workers.items():
            asked = [worker.__ray_ready__.remote() for worker in workers()]
            if asked:
                with asking(kind):
                    ray.get(ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)[0])
        self.checked = time.monotonic()
