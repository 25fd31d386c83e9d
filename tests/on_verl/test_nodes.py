"""Runs on several nodes: a raylet for each, FSDP over gloo between them, nodes that are lost."""

import json
import re
import threading
from pathlib import Path

import pytest
import ray

from cluster import nodes
from integration.conftest import save_tiny
from metis import MetisError
from metis.engines.verl import nodes as of_ray
from metis.engines.verl.nodes import Nodes
from metis.engines.verl.shards import world_sizes
from metis.run import folder as run_folder
from metis.run.transcripts import members
from running import HERE, cpu_overrides, finish, start
from stopping import STOP
from waiting import wait_until

pytestmark = pytest.mark.slow

BATCH, GROUP = 4, 4
WRITTEN = ("judgments", "exemplars", "rollouts")
"""Logs without seconds in them."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    model = save_tiny(folder / "model")
    problems = [{"problem": f"What is {i} + {i % 7}?", "index": i} for i in range(40)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    (folder / "recipe.toml").write_text(f"""
        batch = {BATCH}
        group = {GROUP}
        checkpoints = {{ every = 1, keep = 9 }}
        [task]
        name = "file"
        path = "{folder}/sums.jsonl"
        answer = ""
        heldout = 3
        instruction = ""
        reward = "{HERE}/even_reward.py:steady"
        rewards = "binary"
        [engine]
        name = "verl"
        generation = "transformers"
        model = "{model}"
        max_tokens = 8
        learning_rate = 0.1
        minibatch = 2
        max_prompt = 64
        context = 1024
        tokens = 2048
    """)
    return folder / "recipe.toml"


def train(recipe, folder, overrides, *words):
    """The command of a run; half of the agent loops and rewards for each of two nodes."""
    overrides = [
        *(word for word in overrides if not word.startswith("reward.")),
        "reward.num_workers=2",
        "actor_rollout_ref.rollout.agent.num_workers=2",
        "trainer.val_before_train=False",
    ]
    words = [f"engine.overrides={json.dumps(overrides)}", *words]
    return ["-m", "metis.cli", "train", str(recipe), *words, "--out", str(folder / "run")]


def test_two_workers_on_two_nodes_train_as_two_on_one(recipe, tmp_path):
    """They share one server, as what two say would depend on which of them is asked first."""
    words = ["curriculum=uniform", "steps=2", "evaluate=2", "engine.tensor=2"]
    one, two = tmp_path / "one", tmp_path / "two"
    command = train(recipe, one, cpu_overrides(2), "engine.gpus=2", *words)
    finish(start(command, one), one)
    with nodes(1, 1) as cluster:
        command = train(recipe, two, cpu_overrides(1, nodes=2), "engine.nodes=2", *words)
        finish(start(command, two, cluster=cluster.address), two)
    runs = [one / "run", two / "run"]
    for log in (*WRITTEN, "metrics", "evals"):
        first, second = ((run / f"{log}.jsonl").read_bytes() for run in runs)
        assert first == second, log
    ends = [run / "verl" / "global_step_2" / "actor" for run in runs]
    first, second = ((end / "huggingface" / "model.safetensors").read_bytes() for end in ends)
    assert first == second
    assert [world_sizes(end) for end in ends] == [{2}, {2}]


def lost_node(command, folder, cluster, number, monkeypatch, stop):
    """Takes a node away while its worker is in some call; returns the last line of the run."""
    told = folder / f"told-{number}"
    monkeypatch.setenv(STOP, f"{stop} {told}")
    process = start(command, folder, "stopping", cluster.address)
    wait_until(told.exists, process)
    assert told.exists(), (folder / "log").read_text(errors="replace")[-6000:]
    cluster.kill(number)
    assert process.wait(timeout=600) == 1
    monkeypatch.delenv(STOP)
    lines = (folder / "log").read_text(errors="replace").splitlines()
    return [line for line in lines if line.startswith("metis: ")][-1]


def test_a_run_survives_the_loss_of_its_nodes(recipe, tmp_path, monkeypatch):
    """METIS with the direct judge on three nodes, of which the head has no worker."""
    run, checkpoints = tmp_path / "run", tmp_path / "run" / "verl"
    words = ["steps=4", "evaluate=4", "curriculum.multiplier=2", "curriculum.trial=0"]

    def command(count):
        return train(recipe, tmp_path, cpu_overrides(1, count), f"engine.nodes={count}", *words)

    with nodes(0, 1, 1) as cluster:
        stop = "train_mini_batch 2"
        said = lost_node(command(2), tmp_path, cluster, 2, monkeypatch, stop)
        assert re.search(
            r"^metis: node \S+ \(127\.0\.1\.3\) lost: .* resumes from step 1, on 2 n", said
        )
        before = {log: (run / f"{log}.jsonl").read_bytes() for log in WRITTEN}
        cluster.add(1)
        stop = "save_checkpoint 2"
        said = lost_node(command(2), tmp_path, cluster, 3, monkeypatch, stop)
        assert re.search(
            r"^metis: node \S+ \(127\.0\.1\.4\) lost: .* resumes from step 2, on 2 n", said
        )
        assert world_sizes(checkpoints / "global_step_3" / "actor") <= {2}
        finish(start(command(1), tmp_path, cluster=cluster.address), tmp_path)
    for log, content in before.items():
        assert (run / f"{log}.jsonl").read_bytes().startswith(content), "nothing of it is lost"
    metrics = run_folder.read_log(run, "metrics")
    assert [row["step"] for row in metrics] == [1, 2, 3, 4]
    for row in metrics:
        assert row["rollout/generated"] == BATCH * GROUP and row["actor/grad_norm"] > 0
    assert [row["judge/asked"] for row in metrics[1:]] == [2 * BATCH] * 3
    sizes = [world_sizes(checkpoints / f"global_step_{step}" / "actor") for step in range(1, 5)]
    assert sizes == [{2}, {2}, {1}, {1}]
    settings = json.loads((run / "config.json").read_text())
    assert settings["engine"]["nodes"] == 1 and settings["changes"][-1]["step"] == 2
    said = {(group.head["step"], group.head["prompt"]) for group in members(run, "train")}
    trained = run_folder.read_log(run, "rollouts")
    assert said == {(row["step"], row["prompt"]) for row in trained}


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


def test_a_wait_ends_with_the_node_that_is_lost(two_nodes, monkeypatch):
    """Whatever is waited for; the last test here, as it loses one."""
    monkeypatch.setattr(of_ray, "INTERVAL", 0.1)

    @ray.remote(num_cpus=0, num_gpus=1)
    class Actor:
        pass

    actors = [Actor.remote() for _ in range(2)]
    watched = Nodes(actors)
    assert len(watched.nodes) == 2
    with pytest.raises(ValueError, match="of its own"), watched.watched(lambda: "go on"):
        raise ValueError("of its own")
    with (
        pytest.raises(MetisError, match=r"^node \S+ \(127\.0\.1\.2\) lost: go on$"),
        watched.watched(lambda: "go on"),
    ):
        two_nodes.kill(1)
        threading.Event().wait()
