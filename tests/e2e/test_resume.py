"""kill -9 at any moment, the same command again: the metrics of a run that was never killed."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from metis.cli import main
from waiting import wait_until

SETTINGS = ["engine=simulated", "steps=60", "batch=8", "group=4", "engine.prompts=300"]
SETTINGS += ["checkpoints.every=5"]
KNOBS = {"metis": ["curriculum.trial=4"]}
LOGS = ("metrics", "timings", "judgments", "rollouts")


def words(folder: Path, curriculum: str) -> list[str]:
    chosen = [f"curriculum={curriculum}", *KNOBS.get(curriculum, [])]
    return ["train", *SETTINGS, *chosen, "--out", str(folder)]


def start(folder: Path, curriculum: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "metis.cli", *words(folder, curriculum)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def logs(folder: Path) -> dict[str, bytes]:
    return {log: (folder / f"{log}.jsonl").read_bytes() for log in LOGS}


def wait_for_bytes(process: subprocess.Popen[bytes], path: Path, size: int) -> None:
    """Wait until the run has written so much, or has ended."""
    wait_until(lambda: path.exists() and path.stat().st_size >= size, process)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    """Makes the logs of a run that was never stopped, once for each curriculum."""

    @cache
    def trained(curriculum: str) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp("straight") / curriculum
        assert main(words(folder, curriculum)) == 0
        return logs(folder)

    return trained


@pytest.mark.parametrize("curriculum", ["metis", "oracle", "speed"])
def test_a_killed_run_resumes_to_the_same_bytes(straight, tmp_path, curriculum):
    expected = straight(curriculum)
    killed, kills = tmp_path / "killed", 0
    draw = random.Random(curriculum)
    moments = sorted(draw.randrange(len(expected["judgments"])) for _ in range(6))
    for moment in [0, *moments]:
        process = start(killed, curriculum)
        wait_for_bytes(process, killed / "judgments.jsonl", moment)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert main(words(killed, curriculum)) == 0
    assert kills >= 4
    assert logs(killed) == expected
    assert not list(killed.rglob("*.draft"))


def test_an_interrupt_saves_the_step_and_resumes(straight, tmp_path):
    stopped = tmp_path / "stopped"
    process = start(stopped, "metis")
    wait_for_bytes(process, stopped / "metrics.jsonl", 20_000)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert list((stopped / "checkpoints").iterdir())
    assert main(words(stopped, "metis")) == 0
    assert logs(stopped) == straight("metis")
