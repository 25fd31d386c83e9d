"""`metis train` with a tiny model on the nodes of a cluster, of which one may be killed."""

import contextlib
import json
import subprocess
import time
from pathlib import Path

from cluster import Nodes
from held import NAME
from running import HERE, cpu_overrides, start

OF_A_MACHINE = ("trainer.n_gpus", "ray_kwargs.", "+ray_kwargs.")
"""Overrides that a running cluster does not take, and those of a number of GPUs."""
OF_A_TEST = ("reward.", "actor_rollout_ref.actor.optim")
"""Overrides of other tests: their reward, and SGD."""
SUMS = 32


def command(model: Path, out: Path, reward: str, *words: str) -> list[str]:
    """Three steps of four groups of four, with a checkpoint after each and a validation."""
    problems = [{"problem": f"What is {i} + {i % 7}?", "index": i} for i in range(SUMS)]
    data = out.parent / "sums.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in problems))
    extra = [word for word in cpu_overrides(1) if not word.startswith((*OF_A_MACHINE, *OF_A_TEST))]
    extra += ["actor_rollout_ref.rollout.agent.default_agent_loop=numbered", "reward.num_workers=3"]
    return [
        *("-m", "metis.cli", "train", "engine=verl", f"engine.model={model}"),
        *(f"engine.overrides={extra}", "engine.generation=transformers", "engine.max_prompt=64"),
        *("engine.context=2048", "engine.tokens=16384", "engine.max_tokens=8"),
        *("engine.learning_rate=0.01", "batch=4", "group=4", "steps=3", "evaluate=3"),
        *(
            "checkpoints.every=1",
            "task=file",
            f"task.path={data}",
            "task.answer=",
            "task.heldout=4",
        ),
        *("task.instruction=", f"task.reward={HERE}/placed_reward.py:{reward}"),
        *("task.rewards=binary", *words, "--out", str(out)),
    ]


def begin(
    words: list[str], folder: Path, cluster: Nodes | None = None, held: str = ""
) -> "subprocess.Popen[bytes]":
    """Start a command on a cluster, or on GPUs that it is told of itself."""
    more = {"RAY_ADDRESS": cluster.address} if cluster else {}
    return start(words, folder, "numbered", **more, **({NAME: held} if held else {}))


def ended_without_a_node(
    words: list[str], folder: Path, cluster: Nodes, phase: str, number: int
) -> tuple[str, float]:
    """The last line of a run that loses a node in a phase, after a checkpoint, and the seconds from
    the loss to its end."""
    out = Path(words[-1])
    process = begin(words, folder, cluster, f"{phase}:{number}:{out}")
    try:
        _wait(out.with_name(phase), process, folder)
        cluster.kill(number)
        lost = time.monotonic()
        assert process.wait(timeout=600) != 0
        seconds = time.monotonic() - lost
    finally:
        process.kill()
    return (folder / "log").read_text(errors="replace").splitlines()[-1], seconds


def _wait(path: Path, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    while not path.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=0.5)
            said = (folder / "log").read_text(errors="replace")[-6000:]
            raise AssertionError(f"ended with {code} before {path.name}: {said}")
