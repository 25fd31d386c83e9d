"""A tiny model trained from the command line: it runs, is killed, and goes on to the same bytes."""

import json
import os
import signal
import subprocess
import sys
import types
from functools import partial
from pathlib import Path

import pytest
import torch

from metis.cli import main
from metis.engines import model_files
from metis.errors import pip_install
from metis.run.folder import read_log
from metis.run.transcripts import members, segments
from metis.tasks.arithmetic import ArithmeticTask
from waiting import wait_until

SHORT = ["engine.device=cpu", "engine.max_tokens=6", "steps=5", "batch=3", "group=3", "evaluate=2"]
SHORT += ["checkpoints.every=1", "task.prompts=30", "task.heldout=6", "task.levels=[1]"]
SHORT += ["engine.learning_rate=1e-3", "curriculum.multiplier=2", "curriculum.trial=3"]
DETERMINISTIC = ("metrics", "judgments", "exemplars", "rollouts", "evals", "prompts")


@pytest.fixture
def rewarding(monkeypatch):
    """A reward that a random model earns half of the time."""
    monkeypatch.setattr(ArithmeticTask, "episode", lambda self, prompt: Even(prompt.text))


class Even:
    def __init__(self, text: str) -> None:
        self.chat = [{"role": "user", "content": text}]
        self.answer = ""

    def reply(self, text: str) -> None:
        self.answer = text

    def reward(self) -> float:
        return float(len(self.answer) % 2)


@pytest.mark.parametrize(
    "judge",
    [["direct"], ["reason", "curriculum.judge.max_tokens=8"], ["readout"]],
    ids=lambda j: j[0],
)
def test_a_whole_run_with_each_judge(tiny, tmp_path, capsys, rewarding, judge):
    name, *more = judge
    settings = [f"engine.model={tiny}", f"curriculum.judge={name}", *more]
    assert main(["train", *SHORT, *settings, "--out", str(tmp_path / "run")]) == 0
    assert "held-out accuracy" in capsys.readouterr().out
    rows = read_log(tmp_path / "run", "metrics")
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert any(row.get("update/steps") == 1.0 for row in rows)
    assert all(row["update/non_finite"] == 0.0 for row in rows if "update/non_finite" in row)
    if name == "direct":
        assert all(row["judge/failure_rate"] == 0.0 for row in rows[1:])
    timings = read_log(tmp_path / "run", "timings")
    asked = "select" if name == "readout" else "judge"
    assert {asked, "rollout", "update"} <= set(timings[-1])
    everything_said_is_kept(tmp_path / "run", name)


def everything_said_is_kept(run, judge):
    texts = {row["prompt"]: row["text"] for row in read_log(run, "prompts")}
    trained = [row["rewards"] for row in read_log(run, "rollouts")]
    kept = list(members(run, "train"))
    assert [[row["reward"] for row in group.rows] for group in kept] == trained
    for group in kept:
        assert texts[group.head["prompt"]] in group.head["messages"][-1]["content"]
        for row in group.rows:
            [said] = row["messages"]
            assert said["role"] == "assistant" and row["reward"] == len(said["content"]) % 2
            assert 1 <= row["tokens"] <= 6 and row["trained"] and row["failure"] is None
    tested = [(group.head["step"], group.head["prompt"]) for group in members(run, "eval")]
    assert tested == [(row["step"], row["prompt"]) for row in read_log(run, "evals")]
    asked = [(group.head["step"], group.head["prompt"]) for group in members(run, "judge")]
    rows = [(row["step"], row["prompt"]) for row in read_log(run, "judgments")]
    assert asked == (rows if judge == "reason" else [])
    assert texts.keys() >= {prompt for _, prompt in rows}


def test_what_an_error_message_advises_can_be_done(tiny, tmp_path, capsys, rewarding):
    command = ["train", *SHORT, f"engine.model={tiny}", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    advice = ["engine.learning_rate=5e-4", "engine.tokens=512", "engine.rows=4"]
    assert main([*command, *advice, "engine.checkpointing=true", "steps=6"]) == 0
    assert "engine.learning_rate = 0.0005 (was 0.001)" in capsys.readouterr().out
    assert [row["step"] for row in read_log(tmp_path / "run", "metrics")] == [0, 1, 2, 3, 4, 5, 6]
    assert main([*command, "engine.lora=4"]) == 2
    assert "engine.lora = 0, not 4" in capsys.readouterr().err


def test_vllm_that_is_not_there_is_told_before_the_model_is_fetched(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(model_files, "model", None)
    command = ["train", *SHORT, "engine.generation=vllm", "--out", str(tmp_path / "run")]
    assert main(command) == 2
    [_, line] = capsys.readouterr().err.splitlines()
    assert "engine.generation = 'vllm'" in line and pip_install("vllm") in line
    monkeypatch.setitem(sys.modules, "vllm", types.ModuleType("vllm"))
    assert main(command) == 2
    assert "needs a GPU" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_is_one_line(tiny, tmp_path, capsys):
    command = ["train", *SHORT, f"engine.model={tiny}", "--out", str(tmp_path / "run")]
    assert main([*command, "steps=1"]) == 0
    weights = tmp_path / "run/checkpoints/step-000001/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    capsys.readouterr()
    assert main([*command, "steps=2"]) == 2
    [_, line] = capsys.readouterr().err.splitlines()
    assert "step-000001" in line and "is incomplete" in line and "delete that folder" in line


def test_a_run_on_problems_of_mathematics(tiny, tmp_path):
    rows = [{"problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(20)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = ["task=math", f"task.path={tmp_path / 'rows.jsonl'}", "task.heldout=4"]
    short = [setting for setting in SHORT if not setting.startswith("task.")]
    settings = [*short, *task, "task.verify=false", f"engine.model={tiny}", "steps=2"]
    assert main(["train", *settings, "--out", str(tmp_path / "run")]) == 0
    assert [row["step"] for row in read_log(tmp_path / "run", "metrics")] == [0, 1, 2]
    assert read_log(tmp_path / "run", "rollouts")


def failing(monkeypatch, fails):
    """Rewards fail where the episode is one that `fails`; the number of episodes is given to it."""
    made = []

    class Failing(Even):
        def __init__(self, text):
            super().__init__(text)
            made.append(self)
            self.fails = fails(len(made))

        def reward(self):
            return 1 / 0 if self.fails else super().reward()

    monkeypatch.setattr(ArithmeticTask, "episode", lambda self, prompt: Failing(prompt.text))


UNIFORM = [setting for setting in SHORT if not setting.startswith("curriculum.")]
UNIFORM += ["curriculum=uniform"]


def test_rewards_that_fail_are_shown_and_counted_and_spend_the_tokens(
    tiny, tmp_path, capsys, monkeypatch
):
    failing(monkeypatch, lambda number: number % 9)  # the last of every step succeeds
    settings = [*UNIFORM, f"engine.model={tiny}", "steps=0", "tokens=70", "evaluate=0"]
    settings += ["task.heldout=9"]
    assert main(["train", *settings, "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert shown.count("a rollout failed: ZeroDivisionError: division by zero") == 1
    first, *_, last = read_log(tmp_path / "run", "metrics")
    assert first["eval/failed"] == last["eval/failed"] == 8.0
    assert 70 <= last["total/rollout_tokens"] <= 70 + 9 * 6
    assert last["rollout/failed"] == 8.0


def test_a_run_whose_rewards_all_fail_ends_with_the_reason(tiny, tmp_path, capsys, monkeypatch):
    failing(monkeypatch, lambda number: True)
    settings = [*UNIFORM, f"engine.model={tiny}", "--out", str(tmp_path / "run")]
    assert main(["train", *settings]) == 2
    assert "all 9 rollouts of a step failed: ZeroDivisionError" in capsys.readouterr().err


PROGRAM = """
import sys
import metis.tasks.arithmetic as arithmetic
from metis.cli import main

class Even:
    def __init__(self, text):
        self.chat, self.answer = [{"role": "user", "content": text}], ""
    def reply(self, text):
        self.answer = text
    def reward(self):
        return float(len(self.answer) % 2)

arithmetic.ArithmeticTask.episode = lambda self, prompt: Even(prompt.text)
sys.exit(main(sys.argv[1:]))
"""


def start(words: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)


def drafts(out: Path) -> bool:
    return any((out / "checkpoints").glob(".*.draft")) if out.exists() else False


def after_steps(steps: int):
    def reached(out: Path) -> bool:
        metrics = out / "metrics.jsonl"
        return metrics.exists() and metrics.read_bytes().count(b"\n") > steps

    return reached


@pytest.fixture
def one_thread():
    """As the processes that are killed have, since sums differ by their order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_killed_run_resumes_to_the_same_bytes_also_amid_a_checkpoint(
    tiny, tmp_path, rewarding, one_thread
):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    words = ["train", *SHORT, f"engine.model={tiny}", "--out"]
    assert main([*words, str(straight)]) == 0
    for moment in (after_steps(1), drafts, after_steps(3)):
        process = start([*words, str(killed)])
        wait_until(partial(moment, killed), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it was to be killed before its end"
    assert main([*words, str(killed)]) == 0
    for log in DETERMINISTIC:
        name = f"{log}.jsonl"
        assert (killed / name).read_bytes() == (straight / name).read_bytes(), log
    there, here = (
        {file.name: file.read_bytes() for file in segments(run)} for run in (straight, killed)
    )
    assert here == there and {name.split("-")[0] for name in here} == {"train", "eval"}
