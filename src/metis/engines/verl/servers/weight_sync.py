"""Weight sync that raises when a rollout server fails or dies.

verl's actor workers send the weights over a socket and wait for the server's confirmation; if the
server fails, they would wait forever.
"""

from collections.abc import Sequence
from typing import Any, Self

import ray
from verl.checkpoint_engine import CheckpointEngineManager

from metis.engines.verl.servers import in_server
from metis.engines.verl.servers.liveness import INTERVAL, SERVER, Liveness, asking
from metis.errors import MetisError

ACTOR = "an actor worker"


class WatchedSync(CheckpointEngineManager):  # type: ignore[misc]
    """verl's weight-sync manager, which checks the rollout servers meanwhile."""

    servers: Sequence[Any]
    """Ray actors."""

    @classmethod
    def of(cls, trainer: Any) -> Self:
        """Replaces a trainer's own manager."""
        own = trainer.checkpoint_manager
        watched = cls(own.config, own.actor_wg, own.replicas)
        watched.servers = trainer.llm_server_manager.server_handles
        watched._ask(in_server.keep_errors)
        return watched

    def update_weights(self, global_steps: int | None = None) -> dict[str, Any]:
        if self.backend != "naive":  # over process groups of verl
            metrics: dict[str, Any] = super().update_weights(global_steps)
            return metrics
        self._ask(in_server.take_errors)  # of anything before
        pending = self.actor_wg.update_weights(global_steps=global_steps, mode=self.backend)
        liveness = Liveness({SERVER: lambda: self.servers})
        while pending:
            done, pending = ray.wait(pending, num_returns=len(pending), timeout=INTERVAL)
            with asking(ACTOR):
                ray.get(done)
            if pending:
                liveness.check_now()
                self._check_failures(global_steps)
        return {}

    def _check_failures(self, global_steps: int | None) -> None:
        for taken in self._ask(in_server.take_errors):
            if taken:
                raise MetisError(
                    f"a rollout server failed to load the weights of step {global_steps} "
                    f"({taken[-1]}): see the log; the last checkpoint is complete, and the same "
                    "command resumes from it"
                )

    def _ask(self, function: Any) -> list[Any]:
        """Run a function in each server's actor."""
        with asking(SERVER):
            answers: list[Any] = ray.get(
                [server.__ray_call__.remote(function) for server in self.servers]
            )
        return answers
