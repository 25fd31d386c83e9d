"""kill -9 at any moment, the same command again: the metrics of a run that was never killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "metis.cli", "train", "engine=simulated", "steps=60"]
COMMAND += [
    "batch=8",
    "group=4",
    "engine.prompts=300",
    "checkpoints.every=5",
    "curriculum.trial=4",
]
LOGS = ("metrics", "timings", "judgments", "rollouts")


def run(folder: Path, curriculum: str) -> subprocess.Popen[bytes]:
    command = [*COMMAND, f"curriculum={curriculum}", "--out", str(folder)]
    if curriculum != "metis":
        command.remove("curriculum.trial=4")
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def logs(folder: Path) -> dict[str, bytes]:
    return {log: (folder / f"{log}.jsonl").read_bytes() for log in LOGS}


def wait_for_bytes(process: subprocess.Popen[bytes], path: Path, size: int) -> None:
    """Busy-wait until the run has written so much, or has ended."""
    while process.poll() is None and not (path.exists() and path.stat().st_size >= size):
        time.sleep(0)


@pytest.mark.parametrize("curriculum", ["metis", "oracle", "speed"])
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path, curriculum):
    straight = tmp_path / "straight"
    assert run(straight, curriculum).wait() == 0
    expected = logs(straight)

    killed, kills = tmp_path / "killed", 0
    draw = random.Random(curriculum)
    moments = sorted(draw.randrange(len(expected["judgments"])) for _ in range(6))
    for moment in [0, *moments]:
        process = run(killed, curriculum)
        wait_for_bytes(process, killed / "judgments.jsonl", moment)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert run(killed, curriculum).wait() == 0
    assert kills >= 4
    assert logs(killed) == expected
    assert not list(killed.rglob("*.draft"))


def test_an_interrupt_saves_the_step_and_resumes(tmp_path):
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    assert run(straight, "metis").wait() == 0
    process = run(stopped, "metis")
    wait_for_bytes(process, stopped / "metrics.jsonl", 20_000)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert list((stopped / "checkpoints").iterdir())
    assert run(stopped, "metis").wait() == 0
    assert logs(stopped) == logs(straight)
