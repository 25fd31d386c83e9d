"""Tasks and rewards of one's own on a tiny model: the examples, and every way a reward can fail."""

import json
import os
import runpy
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

import metis
from metis.cli import main
from metis.engines.local.engine import LocalEngine
from metis.engines.local.settings import LocalSettings
from metis.errors import MetisError
from metis.run.folder import read_log
from metis.tasks.file import File, build

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(tiny, tmp_path, monkeypatch):
    """Runs an example as a person does, but with the tiny model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(metis, "train", partial(metis.train, model=tiny, show=False))

    def run(name):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        (folder,) = (tmp_path / "runs").iterdir()
        config = json.loads((folder / "config.json").read_text())
        assert [row["step"] for row in read_log(folder, "metrics")] == [0, 1, 2]
        return folder, config["task"]

    return run


def test_the_example_of_a_task_runs_from_python_and_goes_on_from_the_command(example, capsys):
    folder, task = example("own_task.py")
    name = os.path.relpath(EXAMPLES / "own_task.py")
    assert task == {"name": f"{name}:GuessingGames", "tests": 4, "seed": 0}
    rewards = [reward for row in read_log(folder, "rollouts") for reward in row["rewards"]]
    assert set(rewards) <= {0, *(1 / tries for tries in range(1, 6))} and len(rewards) == 2 * 4 * 4
    again = ["train", f"{folder}/config.json", "steps=3", "--out", str(folder)]
    assert main(again) == 0
    assert len(read_log(folder, "metrics")) == 4


def test_the_example_of_a_reward_logs_what_it_reports(example):
    folder, task = example("own_reward.py")
    name = os.path.relpath(EXAMPLES / "own_reward.py")
    assert (task["reward"], task["rewards"]) == (f"{name}:score", "continuous")
    row, rollouts = read_log(folder, "metrics")[-1], read_log(folder, "rollouts")[-4:]
    said = [report for group in rollouts for report in group["reported"]]
    assert len(said) == 16 and all(report.keys() == {"right", "words"} for report in said)
    assert row["reward/words"] == pytest.approx(sum(report["words"] for report in said) / 16)
    assert row["reward/right"] == 0.0


FAILING = """
import asyncio
import threading

release = threading.Event()

async def soon(value):
    await asyncio.sleep(0)
    return value

def score(reply, row):
    how = row["how"]
    if how == "raises":
        raise ValueError("this answer cannot be scored")
    if how == "hangs":
        release.wait()
    returned = {"none": None, "nan": float("nan"), "text": "1.0", "no score": {"accuracy": 1}}
    return soon(None) if how == "none, async" else returned.get(how, 0.5)
"""
NAMED = {
    "raises": "ValueError: this answer cannot be scored ({path}, line 14, in score)",
    "hangs": "{path}:score took longer than engine.reward_timeout = 2.0 seconds",
    "none": "{path}:score returned None, not a number or a mapping with 'score'",
    "none, async": "{path}:score returned None, not a number or a mapping with 'score'",
    "nan": "{path}:score returned nan, not a finite number",
    "text": "{path}:score returned '1.0', not a number or a mapping with 'score'",
    "no score": "{path}:score returned {{'accuracy': 1}}, a mapping without 'score'",
}


def written(folder, function, kinds):
    """A task of a file with a problem for each of some kinds, and one to test on."""
    (folder / "mine.py").write_text(function)
    rows = [{"id": kind, "problem": f"What is {kind}?", "how": kind} for kind in kinds]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return File(str(folder / "rows.jsonl"), heldout=1, reward=f"{folder}/mine.py:score")


def test_a_reward_that_fails_takes_its_rollout_with_it_and_is_named(tiny, tmp_path):
    settings = written(tmp_path, FAILING, [*NAMED, "works", "tested"])
    engine = LocalEngine(
        LocalSettings(str(tiny), device="cpu", max_tokens=4, reward_timeout=2.0), build(settings, 0)
    )
    prompts = {p.id: p for p in (*engine.task.training(), *engine.task.heldout())}
    path = tmp_path / "mine.py"
    engine.notices.clear()
    for kind, words in NAMED.items():
        engine.failures.kinds.clear()
        failed, fine = engine.rollout([prompts[f"rows:{kind}"], prompts["rows:works"]], 2)
        assert (failed.rewards, failed.failed, fine.rewards) == ((), 2, (0.5, 0.5)), kind
        (notice,) = engine.notices
        assert notice.startswith("a rollout failed: ") and words.format(path=path) in notice
        engine.notices.clear()
    sys.modules[str(path)].release.set()
    engine.rewards.close()


def test_faults_of_one_kind_are_told_once(tiny, tmp_path):
    settings = written(tmp_path, FAILING, [*NAMED, "works", "tested"])
    engine = LocalEngine(
        LocalSettings(str(tiny), device="cpu", max_tokens=4, reward_timeout=2.0), build(settings, 0)
    )
    prompts = {p.id: p for p in (*engine.task.training(), *engine.task.heldout())}
    engine.notices.clear()
    asked = [prompts[f"rows:{kind}"] for kind in ("none", "text", "nan", "no score", "works")]
    engine.rollout(asked, 2)
    assert len(engine.notices) == 3, "None and a text are the same mistake"
    engine.rewards.close()


def test_a_reward_of_another_scale_ends_the_run_with_its_name(tiny, tmp_path, capsys):
    settings = written(tmp_path, "def score(reply):\n    return -1.0\n", "abc")
    words = [f"task.path={settings.path}", f"task.reward={settings.reward}", "task.heldout=1"]
    words += ["batch=2", "group=2", "curriculum=uniform", f"engine.model={tiny}"]
    command = ["train", "task=file", *words, "engine.max_tokens=4", "--out", str(tmp_path / "run")]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert f"metis: {settings.reward} returned -1: rewards must be in [0, 1]; rescale it" in said


def test_a_step_whose_rewards_all_fail_ends_the_run(tiny, tmp_path):
    settings = written(tmp_path, "def score(reply):\n    return None if reply else 0\n", "abc")
    engine = LocalEngine(LocalSettings(str(tiny), device="cpu", max_tokens=4), build(settings, 0))
    with pytest.raises(MetisError, match=r"all 4 rollouts of a step failed: .*mine.py:score ret"):
        engine.rollout(engine.task.training(), 2)
    engine.rewards.close()


def test_an_edited_reward_is_noticed_when_a_run_goes_on(tiny, tmp_path, capsys):
    settings = written(tmp_path, "def score(reply):\n    return 0.0\n", "abc")
    words = [f"task.path={settings.path}", f"task.reward={settings.reward}", "task.heldout=1"]
    words += ["batch=2", "group=2", "curriculum=uniform", f"engine.model={tiny}"]
    words += ["engine.max_tokens=4", "--out", str(tmp_path / "run")]
    assert main(["train", "task=file", *words, "steps=1"]) == 0
    (tmp_path / "mine.py").write_text("def score(reply):\n    return 1.0\n")
    assert main(["train", "task=file", *words, "steps=2"]) == 2
    assert "its file has changed since this run began" in capsys.readouterr().err
    (tmp_path / "run" / "sources.json").unlink()
    assert main(["train", "task=file", *words, "steps=2"]) == 0
