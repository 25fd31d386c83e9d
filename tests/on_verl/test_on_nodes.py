"""Whole runs on several nodes of Ray, a raylet for each, of which some are lost and resumed."""

import pytest

from cluster import nodes
from integration.conftest import save_tiny
from metis.run import folder as run_folder
from metis.run.metrics import unexplained
from running import finish
from runs_on_nodes import begin, command, ended_without_a_node

pytestmark = pytest.mark.slow

SAID = ("judgments", "rollouts", "evals")
OF_A_MACHINE = "actor/perf/"
TWO_NODES = ("engine.nodes=2", "engine.gpus=1")
UNIFORM = ("curriculum=uniform",)
METIS = (
    *("curriculum=metis", "curriculum.multiplier=3", "curriculum.trial=0"),
    "curriculum.judge.examples=1",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def on_one_node(model, tmp_path_factory):
    """Uniform sampling with two workers on one node."""
    folder = tmp_path_factory.mktemp("one")
    with nodes(2) as cluster:
        words = command(model, folder / "run", "compute_score", "engine.gpus=2", *UNIFORM)
        finish(begin(words, folder / "log", cluster), folder / "log")
    return folder / "run"


def without_memory(run):
    rows = run_folder.read_log(run, "metrics")
    return [
        {name: value for name, value in row.items() if not name.startswith(OF_A_MACHINE)}
        for row in rows
    ]


def trained(run, step=3):
    return (run / f"verl/global_step_{step}/actor/huggingface/model.safetensors").read_bytes()


def of_step(run, step):
    rows = run_folder.read_log(run, "rollouts")
    return [row for row in rows if row["step"] == step]


def placed(run):
    """The nodes that rewards were computed on."""
    rows = run_folder.read_log(run, "rollouts")
    return {report["node"] for row in rows for report in row["reported"]}


def test_two_nodes_train_as_one_does_though_one_is_lost_in_an_update(model, on_one_node, tmp_path):
    """Uniform sampling, byte for byte."""
    out, log = tmp_path / "run", tmp_path / "log"
    words = command(model, out, "compute_score", *TWO_NODES, *UNIFORM)
    with nodes(1, 1) as cluster:
        said, _ = ended_without_a_node(words, log, cluster, "update", 2)
        assert "(127.0.1.2)" in said, "of the trainer, or of a worker: Ray chooses where they are"
        assert "the same command resumes from it" in said
        assert (out / "verl/latest_checkpointed_iteration.txt").read_text() == "1"
        cluster.add(1)
        finish(begin(words, log, cluster), log)
    for name in SAID:
        there, here = (run / f"{name}.jsonl" for run in (on_one_node, out))
        assert there.read_bytes() == here.read_bytes(), name
    assert without_memory(on_one_node) == without_memory(out)
    assert trained(on_one_node) == trained(out) != trained(out, 2)


def test_three_nodes_whose_head_has_no_worker_lose_one_in_a_checkpoint(model, tmp_path):
    """METIS; what is left goes on with one worker."""
    out, log = tmp_path / "run", tmp_path / "log"
    with nodes(0, 1, 1) as cluster:
        words = command(model, out, "placed", *METIS, *TWO_NODES)
        said, _ = ended_without_a_node(words, log, cluster, "checkpoint", 3)
        assert "(127.0.1.3)" in said and "the same command resumes from it" in said
        assert placed(out) == {1, 2, 3}, "rewards are computed on every node"
        first = of_step(out, 1)
        assert (out / "verl/global_step_2/actor").exists(), "half of a checkpoint"
        left = command(model, out, "placed", *METIS, "engine.nodes=1", "engine.gpus=1")
        finish(begin(left, log, cluster), log)
    said = (log / "log").read_text(errors="replace")
    assert "from here on" in said and "from 2 to 1 GPUs" in said
    assert first == of_step(out, 1) != [], "nothing is lost"
    assert_judged(out)


def assert_judged(run):
    rows = run_folder.read_log(run, "metrics")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert all(row["judge/asked"] >= 12 for row in rows[1:])
    assert all(row["update/judgments"] > 0 and row["actor/grad_norm"] > 0 for row in rows[1:])
    for row in rows:
        assert unexplained("metrics", row) == []
