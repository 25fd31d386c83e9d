"""Nodes of a Ray cluster, a raylet for each: their room, and a folder that they share."""

from pathlib import Path

import pytest
import ray

from cluster import nodes
from metis import MetisError
from metis.engines.verl import nodes as of_ray
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
    with pytest.raises(MetisError, match=r"^there = '/proc/self/cwd/run': node .*127\.0\.1\.\d"):
        of_ray.check_shared(own, "there")
    assert not list(own.iterdir())
    with pytest.raises(MetisError, match=r"^here = .*: node .*: /proc/self/cwd/run "):
        of_ray.check_shared(tmp_path, "here", [own])
