"""Nodes of a Ray cluster, a raylet for each: their room, a folder that they share, their loss."""

import contextlib
import threading
from pathlib import Path

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster import nodes
from metis import MetisError
from metis.engines.verl import nodes as of_ray
from metis.engines.verl.nodes import Nodes
from running import HERE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two_nodes():
    with nodes(1, 1) as cluster:
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
        ray.shutdown()


def test_nodes_that_are_too_few_are_refused_with_those_that_are_there(two_nodes, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    of_ray.check_room(2, 1)
    for count, gpus in ((3, 1), (1, 2)):
        said = rf"trainer.nnodes = {count}, .* fewer GPUs: .*127\.0\.1\.2\) with 1; start Ray"
        with pytest.raises(MetisError, match=said):
            of_ray.check_room(count, gpus)


def test_a_folder_that_is_another_one_on_each_node_is_refused(two_nodes, tmp_path, monkeypatch):
    of_ray.check_shared(tmp_path, "here", [HERE])
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(of_ray, "TRIES", 1)
    monkeypatch.chdir(tmp_path)
    own = Path("/proc/self/cwd/run")
    with pytest.raises(
        MetisError, match=r"^there = '/proc/self/cwd/run': node .* is not there: ev"
    ):
        of_ray.check_shared(own, "there")
    assert not list(own.iterdir())
    with pytest.raises(MetisError, match="/proc/self/cwd/run is not there: every node needs"):
        of_ray.check_shared(tmp_path, "here", [own])


def test_a_run_ends_with_the_node_that_is_lost(two_nodes, tmp_path):
    """Whatever it waits for; the last test here, as it loses one."""

    class Run:
        """Of this function, since Ray's processes do not find this module."""

        def train(self, kinds, told):
            made = [
                kind.options(name=name, namespace=space).remote() for kind, name, space in kinds
            ]
            ray.get([actor.__ray_ready__.remote() for actor in made])
            watched = Nodes.of_this_run()
            assert len(watched.nodes) == 2
            with contextlib.suppress(ValueError), watched.watched(lambda: "go on"):
                raise ValueError("not of a node")
            with watched.watched(lambda: "go on"):
                told.touch()
                threading.Event().wait()

    class Worker:
        pass

    head = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    run = ray.remote(num_cpus=0, scheduling_strategy=head)(Run).remote()
    worker = ray.remote(num_cpus=0, num_gpus=1)(Worker)
    told = tmp_path / "told"
    ended = run.train.remote([(worker, "worker", None), (worker, *of_ray.QUEUE)], told)
    while not told.exists():
        assert not ray.wait([ended], timeout=0.01)[0], ray.get(ended)
    two_nodes.kill(1)
    with pytest.raises(MetisError, match=r"node \S+ \(127\.0\.1\.2\) lost: go on"):
        ray.get(ended)
