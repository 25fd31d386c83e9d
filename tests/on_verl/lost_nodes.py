"""What a run on two nodes says when one is lost, in each phase; then it resumes on two again.

    PYTHONPATH=tests .venv-verl/bin/python tests/on_verl/lost_nodes.py [PHASE ...]

On this machine, with a raylet for each node and a tiny model, from the root of the project. Prints
for each phase the last line of the run, the seconds from the loss to its end, and whether the same
command then finished with the logs of an undisturbed run.
"""

import sys
import tempfile
from pathlib import Path

from cluster import nodes
from integration.conftest import save_tiny
from running import finish
from runs_on_nodes import begin, command, ended_without_a_node

PHASES = ("rollout", "reward", "update", "checkpoint", "validation")
WORDS = ("engine.nodes=2", "engine.gpus=1", "curriculum=uniform", "evaluate=2")
LOGS = ("judgments", "rollouts", "evals")


def main(phases: list[str]) -> int:
    differing = 0
    with tempfile.TemporaryDirectory() as place:
        model, whole = save_tiny(Path(place) / "model"), Path(place) / "whole"
        whole.mkdir()
        with nodes(1, 1) as cluster:
            words = command(model, whole / "run", "compute_score", *WORDS)
            finish(begin(words, whole / "log", cluster), whole / "log")
        for phase in phases:
            folder = Path(place) / f"lost-in-{phase}"
            folder.mkdir()
            words = command(model, folder / "run", "compute_score", *WORDS)
            with nodes(1, 1) as cluster:
                said, seconds = ended_without_a_node(words, folder / "log", cluster, phase, 2)
                cluster.add(1)
                finish(begin(words, folder / "log", cluster), folder / "log")
            same = logs(folder / "run") == logs(whole / "run")
            differing += not same
            print(f"{phase}, after {seconds:.0f} s: {said}")
            print(f"  resumed: {'the same logs' if same else 'OTHER LOGS'}", flush=True)
    return min(differing, 1)


def logs(run: Path) -> list[bytes]:
    return [(run / f"{name}.jsonl").read_bytes() for name in LOGS]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(PHASES)))
