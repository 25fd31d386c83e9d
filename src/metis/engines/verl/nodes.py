"""Checks of the nodes of a Ray cluster: enough GPUs, a shared run folder, and lost nodes."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from metis.engines.verl.servers.liveness import WorkerDied
from metis.errors import MetisError

TRIES = 5
"""Checks of the shared folder, a second apart: network file systems cache listings."""
LOST = 90
"""Checks of the cluster, a second apart. Ray declares a node dead after five health checks: 15
seconds if its processes were killed, 65 if it does not answer."""

Node = Mapping[str, Any]
"""A node as Ray describes it."""


def described(node: Node) -> str:
    """Host and address of a node."""
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def living() -> list[Node]:
    """The nodes that are alive, by address."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    return sorted(alive, key=lambda node: str(node["NodeManagerAddress"]))


def here() -> str:
    """Host and address of the node of this process."""
    own = ray.get_runtime_context().get_node_id()
    return next(described(node) for node in living() if node["NodeID"] == own)


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


@contextmanager
def watched() -> Iterator[None]:
    """Name the lost node that caused an error; the error itself at most names a worker."""
    before = living()
    try:
        yield
    except Exception as error:
        lost = [] if _is_own(error) else _lost(before)
        if not lost:
            raise
        raise MetisError(
            f"{'nodes' if len(lost) > 1 else 'node'} {', '.join(map(described, lost))} of the Ray "
            "cluster died: the last checkpoint is complete, and the same command resumes from it "
            "once Ray has as many nodes again; with engine.nodes and engine.gpus it resumes on "
            "those that are left"
        ) from error


def _is_own(error: Exception) -> bool:
    """True for an error of METIS that is not the death of a worker."""
    return isinstance(error, MetisError) and not isinstance(error, WorkerDied)


def _lost(before: Sequence[Node]) -> list[Node]:
    """The nodes that are no longer alive, once Ray has noticed."""

    def gone() -> list[Node]:
        there = {node["NodeID"] for node in living()}
        return [node for node in before if node["NodeID"] not in there]

    if len(before) > 1:
        _within_a_while(lambda: bool(gone()), LOST)
    return gone()


def check_shared(folder: Path, key: str, others: Sequence[Path] = ()) -> None:
    """Refuse a folder that is not shared by all nodes; writes a probe file from each.

    `others` are further folders that must exist on every node.
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
            if not wrong and not _within_a_while(names[node["NodeID"]].exists, TRIES):
                wrong = f"files that it writes to {folder} do not appear here"
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
    """Runs on a node: the problem with these paths there, or empty."""
    if not _within_a_while(Path(probe).exists, TRIES):
        return f"files that other nodes write to {Path(probe).parent} do not appear there"
    try:
        Path(name).write_bytes(b"")
    except OSError as error:
        return f"{Path(probe).parent} cannot be written to ({error.strerror})"
    lacking = [other for other in others if not Path(other).exists()]
    return f"{', '.join(lacking)} is not there" if lacking else ""


def _within_a_while(found: Callable[[], bool], tries: int) -> bool:
    for _ in range(tries - 1):
        if found():
            return True
        time.sleep(1.0)
    return found()
