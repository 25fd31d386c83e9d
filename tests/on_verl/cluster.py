"""A Ray cluster of several nodes on this machine: a raylet for each, at a loopback address of its
own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ray.cluster_utils import Cluster

from held import NUMBER
from running import environment

CORES = 16
"""Of each node, as Ray counts them."""


class Nodes:
    """A cluster whose first node is the head; `gpus` are those of each node."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self.cluster = Cluster()
        self.nodes: list[Any] = []
        for count in gpus:
            self.add(count)

    @property
    def address(self) -> str:
        return self.cluster.address

    def add(self, gpus: int) -> None:
        head = {} if self.nodes else {"include_dashboard": False}
        settings = {
            "num_cpus": CORES,
            "num_gpus": gpus,
            "node_ip_address": f"127.0.1.{len(self.nodes) + 1}",
            "object_store_memory": 100_000_000,
            "env_vars": {**environment(), NUMBER: str(len(self.nodes) + 1)},
            **head,
        }
        self.nodes.append(self._started(settings))

    def kill(self, number: int) -> None:
        """The raylet of a node, with which Ray's processes of that node end."""
        self.cluster.remove_node(self.nodes[number - 1], allow_graceful=False)

    def _started(self, settings: dict[str, Any], tries: int = 10) -> Any:
        """Ray gives up on a raylet after half a minute, which a busy machine exceeds."""
        try:
            return self.cluster.add_node(**settings)
        except Exception:
            if tries == 1:
                raise
            return self._started(settings, tries - 1)


@contextmanager
def nodes(*gpus: int) -> Iterator[Nodes]:
    made = Nodes(gpus)
    try:
        yield made
    finally:
        made.cluster.shutdown()
