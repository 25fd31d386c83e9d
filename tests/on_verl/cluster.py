"""A Ray cluster of several nodes on this machine: a raylet for each, at a loopback address of its
own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ray.cluster_utils import Cluster

from running import environment

CORES = 16
"""Of each node, as Ray counts them."""
QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""A lost node is found within seconds; by default it takes half a minute."""


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
        head = {} if self.nodes else {"_system_config": QUICK, "include_dashboard": False}
        node = self.cluster.add_node(
            num_cpus=CORES,
            num_gpus=gpus,
            node_ip_address=f"127.0.1.{len(self.nodes) + 1}",
            object_store_memory=100_000_000,
            env_vars=environment(),
            **head,
        )
        self.nodes.append(node)

    def kill(self, number: int) -> None:
        """End a node as a power cut does, with all that runs on it."""
        self.cluster.remove_node(self.nodes[number], allow_graceful=False)


@contextmanager
def nodes(*gpus: int) -> Iterator[Nodes]:
    made = Nodes(gpus)
    try:
        yield made
    finally:
        made.cluster.shutdown()
