"""The nodes of a Ray cluster: whether a run has room on them, what they share, and their loss."""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from metis.errors import MetisError

INTERVAL = 5.0
"""Seconds between looks at the nodes."""
PATIENCE = 60.0
"""Seconds after an error in which Ray may find that a node is lost; it usually takes 30."""
TRIES = 5
"""Looks at the shared folder, a second apart: network file systems keep listings for a while."""
HIT = signal.SIGUSR1

Node = Mapping[str, Any]
"""A node as Ray describes it."""


class NodeLost(Exception):
    """Raised in the main thread, whatever it waits for."""


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


QUEUE = ("TransferQueueController", "transfer_queue")
"""Name and namespace of the only actor of verl's that is in no namespace of the run's."""


class Nodes:
    """The nodes that some actors are on."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self.actors = actors
        asked = [actor.__ray_call__.remote(_place) for actor in actors]
        places = set(ray.get(ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)[0]))
        self.nodes = [node for node in living() if node["NodeID"] in places]

    @classmethod
    def of_this_run(cls) -> Self:
        """All actors of verl have names."""
        own = [ray.get_actor(name) for name in ray.util.list_named_actors()]
        return cls([*own, ray.get_actor(*QUEUE)])

    def lost(self) -> list[Node]:
        dead = {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
        return [node for node in self.nodes if node["NodeID"] in dead]

    @contextmanager
    def watched(self, how_to_go_on: Callable[[], str]) -> Iterator[None]:
        """Ends the body once a node is lost, whatever it waits for, with an error that names it."""
        ended = threading.Event()

        def end(*_: Any) -> None:
            if not ended.is_set():
                raise NodeLost

        before = signal.signal(HIT, end)
        watch = threading.Thread(target=self._watch, args=(ended, threading.get_ident()))
        watch.daemon = True
        watch.start()
        try:
            yield
        except Exception as error:
            ended.set()
            self._wait_for_answers()
            if lost := self.lost():
                names = " and ".join(map(described, lost))
                raise MetisError(
                    f"node{'s' * (len(lost) > 1)} {names} lost: {how_to_go_on()}"
                ) from error
            if isinstance(error, ray.exceptions.RayActorError):
                died = type(error).__name__
                raise MetisError(f"a worker died ({died}): {how_to_go_on()}") from error
            raise
        finally:
            ended.set()
            watch.join()
            signal.signal(HIT, before)

    def _watch(self, ended: threading.Event, thread: int) -> None:
        while not ended.wait(INTERVAL):
            if self.lost():
                signal.pthread_kill(thread, HIT)
                return

    def _wait_for_answers(self) -> None:
        """Actors on a node that is lost do not answer until Ray has found that it is."""
        asked = [actor.__ray_ready__.remote() for actor in self.actors]
        ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)


def _place(_: Any) -> str:
    return str(ray.get_runtime_context().get_node_id())
