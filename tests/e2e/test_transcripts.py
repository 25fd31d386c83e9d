"""kill -9 at any moment: no transcript is torn, and in the end they are as without."""

import subprocess
import sys
from pathlib import Path

import pytest

import talking
from metis.run.folder import read_log
from metis.run.transcripts import members, segments

SETTINGS = ["engine=simulated", "steps=60", "batch=3", "group=4", "engine.prompts=200"]
SETTINGS += ["engine.heldout=4", "engine.failures=0.1", "evaluate=10", "checkpoints.every=5"]
REASON = ["curriculum.judge=reason", "curriculum.multiplier=2", "curriculum.trial=4"]


def run(*words: str) -> str:
    command = [sys.executable, talking.__file__, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stored(folder: Path) -> dict[str, bytes]:
    kept = {file.name: file.read_bytes() for file in segments(folder)}
    return kept | {"prompts": (folder / "prompts.jsonl").read_bytes()}


@pytest.mark.parametrize(
    ("curriculum", "kills", "gigabytes", "kinds"),
    [("metis", 20, "2", {"train", "judge", "eval"}), ("dapo", 8, "0.00001", {"train", "eval"})],
)
def test_killed_at_any_moment_the_transcripts_are_as_without(
    tmp_path, curriculum, kills, gigabytes, kinds
):
    words = ["train", *SETTINGS, f"curriculum={curriculum}", f"transcripts_gb={gigabytes}"]
    words += REASON if curriculum == "metis" else []
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    run(*words, "--out", str(straight))
    most = talking.size(straight) // 8
    said = run("--kill", str(kills), str(most), *words, "--out", str(killed))
    assert int(said.splitlines()[-1]) > kills / 2
    for member in members(killed):
        assert len(member.rows) == member.head["n"] or curriculum == "dapo"
    run(*words, "--out", str(killed))
    assert stored(killed) == stored(straight)
    assert {file.name.split("-")[0] for file in segments(straight)} == kinds
    assert not list(killed.rglob("*.draft"))
    thinned = [row for row in read_log(straight, "notices") if "transcripts_gb" in row["text"]]
    assert bool(thinned) == (curriculum == "dapo")


def test_what_a_filter_discards_is_kept(tmp_path):
    run("train", *SETTINGS, "curriculum=dapo", "steps=5", "--out", str(tmp_path / "run"))
    judged = [row for row in read_log(tmp_path / "run", "judgments") if row["step"] > 0]
    kept = {
        (member.head["step"], member.head["prompt"]): any(row["trained"] for row in member.rows)
        for member in members(tmp_path / "run", "train")
    }
    assert kept == {(row["step"], row["prompt"]): row["chosen"] for row in judged}
    assert not all(kept.values())
