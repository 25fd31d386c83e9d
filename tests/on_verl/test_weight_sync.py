"""Weight sync between real Ray actors, of which one fails or dies."""

import threading
from types import SimpleNamespace

import pytest
import ray
from verl.workers.config import CheckpointEngineConfig

from metis import MetisError
from metis.engines.verl.servers import in_server, weight_sync
from metis.engines.verl.servers.weight_sync import WatchedSync


@pytest.fixture(scope="module")
def kinds():
    """Classes of this function, since Ray's processes do not find this module."""

    class Engine:
        async def collective_rpc(self, method):
            if method == "fail":
                raise RuntimeError("generator raised StopIteration\nand more")

    class Server:
        def __init__(self):
            self.engine = Engine()

        async def collective_rpc(self, method):
            await self.engine.collective_rpc(method)

    class Worker:
        """Like verl's, it does not look at the answer before the weights are confirmed."""

        def send(self, server, method):
            asked = server.collective_rpc.remote(method)
            if method != "load":
                threading.Event().wait()
            return ray.get(asked)

        def lack(self):
            raise ValueError("no such parameter")

    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield SimpleNamespace(
        **{kind.__name__: ray.remote(num_cpus=0)(kind) for kind in (Server, Worker)}
    )
    ray.shutdown()


@pytest.fixture
def sync(kinds, monkeypatch):
    """Two servers, the second with a worker that sends to it."""
    monkeypatch.setattr(weight_sync, "INTERVAL", 0.1)
    servers = [kinds.Server.remote() for _ in range(2)]
    worker = kinds.Worker.remote()
    made = SimpleNamespace(
        config=CheckpointEngineConfig(backend="naive"), actor_wg=SimpleNamespace(), replicas=[]
    )
    manager = SimpleNamespace(server_handles=servers)
    trainer = SimpleNamespace(checkpoint_manager=made, llm_server_manager=manager)
    watched = WatchedSync.of(trainer)

    def run(method, dies=None):
        def ask(global_steps, mode):
            assert (global_steps, mode) == (3, "naive")
            if dies is not None:
                ray.kill(dies)
            return [worker.send.remote(servers[1], method)]

        watched.actor_wg.update_weights = ask
        return watched.update_weights(3)

    yield SimpleNamespace(run=run, watched=watched, servers=servers, worker=worker)
    for actor in (*servers, worker):
        ray.kill(actor)


def test_a_sync_that_works_ends(sync):
    assert sync.run("load") == {}


def test_a_server_that_fails_is_the_error_though_the_worker_waits_on(sync):
    said = r"failed to load the weights of step 3 \(RuntimeError: generator raised StopIteration\)"
    with pytest.raises(MetisError, match=said):
        sync.run("fail")


def test_a_failure_before_the_sync_is_not_its_own(sync):
    with pytest.raises(RuntimeError):
        ray.get(sync.servers[0].collective_rpc.remote("fail"))
    assert sync.run("load") == {}
    sync.watched._check_failures(3)


def test_a_server_that_dies_is_the_error(sync):
    with pytest.raises(MetisError, match=r"^a rollout server died"):
        sync.run("stall", dies=sync.servers[0])


def test_an_error_of_the_actor_s_own_is_raised_as_it_is(sync):
    sync.watched.actor_wg.update_weights = lambda **_: [sync.worker.lack.remote()]
    with pytest.raises(ValueError, match="no such parameter"):
        sync.watched.update_weights(3)


def test_a_worker_of_the_actor_that_dies_is_the_error(sync):
    with pytest.raises(MetisError, match=r"^an actor worker died"):
        sync.run("stall", dies=sync.worker)


def test_a_server_without_an_engine_is_left_as_it_is():
    server = SimpleNamespace()
    in_server.keep_errors(server)
    assert vars(server) == {}
