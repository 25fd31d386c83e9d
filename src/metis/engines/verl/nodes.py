"""The nodes of a Ray cluster: whether a run has room on them, and what they share."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from metis.errors import MetisError

TRIES = 5
"""Looks at the shared folder, a second apart: network file systems keep listings for a while."""

Node = Mapping[str, Any]
"""A node as Ray describes it."""


def described(node: Node) -> str:
    """Host and address of a node."""
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def living() -> list[Node]:
    """The nodes that are there, by address."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    return sorted(alive, key=lambda node: str(node["NodeManagerAddress"]))


def check_room(count: int, gpus: int) -> None:
    """Refuse a cluster without `count` nodes of `gpus` GPUs; verl would wait for them."""
    from verl.plugin.platform import get_platform  # tasks of this module do without it

    kind = get_platform().ray_resource_name()
    nodes = living()
    owned = [int(node["Resources"].get(kind, 0)) for node in nodes]
    if sum(own // gpus for own in owned) >= count:
        return
    there = ", ".join(
        f"{described(node)} with {own}" for node, own in zip(nodes, owned, strict=True)
    )
    raise MetisError(
        f"trainer.nnodes = {count}, trainer.n_gpus_per_node = {gpus}: the Ray cluster has fewer "
        f"GPUs: {there}; start Ray on more nodes, or train on fewer (engine.nodes, engine.gpus)"
    )


def check_shared(folder: Path, key: str, others: Sequence[Path] = ()) -> None:
    """Refuse a folder that the nodes do not share, by writing from each of them.

    `others` are folders that every node has to have too.
    """
    nodes = [node for node in living() if node["Resources"].get("CPU")]
    if len(nodes) < 2:
        return
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".probe-{uuid.uuid4().hex}"
    probe.write_bytes(b"")
    names = {node["NodeID"]: probe.with_name(f"{probe.name}-{i}") for i, node in enumerate(nodes)}
    try:
        asked = [
            ray.remote(_look)
            .options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(own, soft=False)
            )
            .remote(str(probe), str(name), [str(other) for other in others])
            for own, name in names.items()
        ]
        for node, wrong in zip(nodes, ray.get(asked), strict=True):
            if not wrong and not _within_a_while(names[node["NodeID"]].exists):
                wrong = f"what it writes to {folder} is not seen here"
            if wrong:
                raise MetisError(
                    f"{key} = {str(folder)!r}: node {described(node)}: {wrong}: every node needs "
                    "the run folder, the data and the model at the same paths of a shared file "
                    "system"
                )
    finally:
        for path in (probe, *names.values()):
            path.unlink(missing_ok=True)


def _look(probe: str, name: str, others: Sequence[str]) -> str:
    """Runs on a node: what is wrong with these paths there."""
    if not _within_a_while(Path(probe).exists):
        return f"what is written to {Path(probe).parent} elsewhere is not there"
    try:
        Path(name).write_bytes(b"")
    except OSError as error:
        return f"{Path(probe).parent} cannot be written to ({error.strerror})"
    lacking = [other for other in others if not Path(other).exists()]
    return f"{', '.join(lacking)} is not there" if lacking else ""


def _within_a_while(found: Callable[[], bool]) -> bool:
    for _ in range(TRIES - 1):
        if found():
            return True
        time.sleep(1.0)
    return found()
