"""The replay buffer that verl's step takes its rows from."""

from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from metis.engines.verl.servers.liveness import Liveness
from metis.engines.verl.servers.rollouts import PARTITION


class PlannedBuffer(ReplayBuffer):  # type: ignore[misc]
    """verl's replay buffer, except that what a step trains on is what the plan returned.

    Where it waits for the answers of a test, it looks whether someone still writes them.
    """

    planned: KVBatchMeta
    liveness: Liveness

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        if partition_id == PARTITION:
            return self.planned, {}
        sampled: tuple[KVBatchMeta, dict[str, Any]] = super().sample(
            global_steps, partition_id, batch_size
        )
        return sampled

    def _wait_for_next_poll(self, *arguments: Any) -> Any:
        self.liveness.check()
        return super()._wait_for_next_poll(*arguments)
