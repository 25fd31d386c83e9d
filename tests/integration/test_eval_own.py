"""A run's own test: whatever its task, `metis eval` finds what the last test of training found."""

import json
import shutil
import zlib
from dataclasses import dataclass

import pytest

import made_up_problems
from metis.cli import main
from metis.core import Prompt
from metis.tasks import file
from metis.tasks.base import SingleTurn
from metis.tasks.math import task as math
from metis.tasks.registry import TASKS, TaskEntry

MINE = ["task=file", "task.path=mine.jsonl", "task.match=text", "task.instruction=Be brief."]


def odd(reply, reference, *_):
    """Right for about half of all replies, and for others when a single character differs."""
    return float(zlib.crc32(f"{reply} {reference}".encode()) % 2)


@dataclass
class Dialogue:
    """Three turns; what is earned depends on every one of them."""

    prompt: Prompt
    said: str = ""
    turns: int = 0

    @property
    def chat(self):
        return [{"role": "user", "content": f"Let us talk about {self.prompt.id}."}]

    def reply(self, text):
        self.said, self.turns = self.said + text, self.turns + 1
        return [{"role": "user", "content": "And then?"}] if self.turns < 3 else None

    def reward(self):
        return (zlib.crc32(self.said.encode()) % 97) / 97


@dataclass(frozen=True)
class Topics:
    heldout: int = 5


class Dialogues:
    rewards = "continuous"

    def __init__(self, settings, seed):
        self.settings = settings

    def training(self):
        return [Prompt(f"train-{i}", "") for i in range(6)]

    def heldout(self):
        return [Prompt(f"test-{'x' * i}", "") for i in range(self.settings.heldout)]

    def episode(self, prompt):
        return Dialogue(prompt)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_up_problems.write(tmp_path / "mine.jsonl")
    monkeypatch.setitem(file.MATCHES, "text", odd)
    monkeypatch.setattr(math, "score", odd)
    monkeypatch.setitem(TASKS, "dialogues", TaskEntry(Topics, Dialogues))
    return tmp_path


def train(tiny, *settings):
    command = ["train", f"engine.model={tiny}", "engine.device=cpu", "engine.rows=3"]
    command += ["engine.max_tokens=4", "engine.learning_rate=1e-2", "steps=1", "batch=2"]
    command += ["group=2", "curriculum=uniform", *settings, "--out", "run"]
    assert main(command) == 0


def evaluate(*words, of="run", last=("--checkpoint", "last"), out="out"):
    return main(["eval", of, *words, *last, "--device", "cpu", "--out", out])


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def last_test(run):
    """The last test of training: its metrics, and the reward of every prompt."""
    step = max(row["step"] for row in rows(run / "evals.jsonl"))
    [metrics] = [row for row in rows(run / "metrics.jsonl") if row["step"] == step]
    evals = [row for row in rows(run / "evals.jsonl") if row["step"] == step]
    return metrics, [(row["prompt"], row["reward"]) for row in evals]


def found(out):
    results = json.loads((out / "results.json").read_text())
    answers = rows(out / "answers.jsonl")
    return results, [(row["problem"], row["answers"][0]["scores"]["faithful"]) for row in answers]


@pytest.mark.parametrize(
    ("task", "instruction", "scorer"),
    [
        ([*MINE, "task.heldout=7"], "Be brief.", "the whole reply equals the answer"),
        (
            ["task=math", "task.path=mine.jsonl", "task.verify=false", "task.heldout=7"],
            math.INSTRUCTION,
            "mathematics: the last box",
        ),
        (
            ["task=arithmetic", "task.prompts=9", "task.heldout=4", "task.instruction="],
            "",
            "the last number",
        ),
        (["task=dialogues"], None, "test_eval_own:Dialogues"),
    ],
    ids=["file", "math", "arithmetic", "several turns"],
)
def test_it_equals_the_last_test_of_training(tiny, tmp_path, task, instruction, scorer):
    train(tiny, *task)
    assert evaluate() == 0
    metrics, rewards = last_test(tmp_path / "run")
    results, answers = found(tmp_path / "out")
    assert answers == rewards
    assert results["average"]["faithful"]["accuracy"] == metrics["eval/accuracy"]
    assert results["average"]["faithful"]["stderr"] == metrics.get("eval/stderr")
    about = results["benchmarks"]["heldout"]
    assert about["instruction"] == instruction and scorer in about["scorer"]
    assert evaluate("--rows", "2", out="others") == 0
    assert found(tmp_path / "others")[1] == rewards, "greedy answers, whatever the rounds"
    if task[0] != "task=arithmetic":
        assert len({reward for _, reward in rewards}) > 1, "the rewards tell answers apart"


def test_benchmarks_of_a_run_are_its_own_test_set_by_set(tiny, tmp_path):
    for name, count in (("easy", 4), ("all", 12)):
        made_up_problems.write(tmp_path / f"{name}.jsonl", count)
    train(tiny, *MINE, "task.heldout=4", "benchmarks=['easy.jsonl','all.jsonl']")
    assert evaluate() == 0
    metrics, rewards = last_test(tmp_path / "run")
    results, answers = found(tmp_path / "out")
    assert answers == rewards
    assert results["average"]["faithful"]["accuracy"] == metrics["eval/accuracy"]
    for name in ("easy", "all"):
        about = results["benchmarks"][name]
        assert about["scores"]["faithful"]["accuracy"] == metrics[f"eval/accuracy/{name}"]
        assert (about["instruction"], about["scorer"][:9]) == ("Be brief.", "the whole")
    assert evaluate("--suite", "easy.jsonl", "--rows", "3", out="named") == 0
    again, _ = found(tmp_path / "named")
    assert again["benchmarks"]["easy"] == results["benchmarks"]["easy"]


def test_several_answers_of_several_turns_stopped_and_taken_up_again(tiny, tmp_path):
    train(tiny, "task=dialogues")
    several = ["--samples", "3", "--limit", "4", "--max-tokens", "2"]
    for out in ("straight", "cut"):
        assert evaluate(*several, out=out) == 0
    log = tmp_path / "cut/answers.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut/results.json").unlink()
    assert evaluate(*several, out="cut") == 0
    for name in ("answers.jsonl", "results.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    results, _ = found(tmp_path / "cut")
    assert results["metric"] == "mean@3" and results["benchmarks"]["heldout"]["problems"] == 4
    answers = [answer for row in rows(log) for answer in row["answers"]]
    assert len(answers) == 12 and all(len(answer["turns"]) == 3 for answer in answers)
    assert len({answer["scores"]["faithful"] for answer in answers}) > 3


def test_files_are_asked_in_the_run_s_way_and_settings_replace_it(tiny, tmp_path, capsys):
    train(tiny, *MINE, "task.heldout=4")
    made_up_problems.write(tmp_path / "more.jsonl", 6)
    both = ["--suite", "heldout", "more.jsonl", "task.instruction=Be brave."]
    assert evaluate(*both) == 0
    results, _ = found(tmp_path / "out")
    assert {about["instruction"] for about in results["benchmarks"].values()} == {"Be brave."}
    assert results["benchmarks"]["more"]["problems"] == 6
    shown = capsys.readouterr().out
    assert "- more: instruction: “Be brave.”; scorer: the whole reply equals" in shown
    assert evaluate("task=math", "--no-verify", "--suite", "more.jsonl", out="math") == 0
    results, _ = found(tmp_path / "math")
    assert results["benchmarks"]["more"]["scorer"].startswith("mathematics")
    for words, said in (
        (["task.matches=text", "--suite", "more.jsonl"], "did you mean 'task.match'?"),
        (["steps=3", "--suite", "more.jsonl"], "steps = 3: only the task's can be set here"),
    ):
        assert evaluate(*words, out="none") == 2
        assert said in capsys.readouterr().err


def test_a_model_is_tested_on_a_task_that_is_named(tiny, tmp_path, capsys):
    words = ["--max-tokens", "4"]
    assert evaluate(*MINE, "task.heldout=3", *words, of=str(tiny), last=()) == 0
    results, _ = found(tmp_path / "out")
    assert results["benchmarks"]["heldout"]["problems"] == 3
    named = ["task=file", "task.match=text", "--suite", "mine.jsonl"]
    assert evaluate(*named, *words, of=str(tiny), last=(), out="named") == 0
    results, _ = found(tmp_path / "named")
    assert results["benchmarks"]["mine"]["scorer"].endswith("(task.match=text)")
    capsys.readouterr()
    assert evaluate(*words, of=str(tiny), last=(), out="none") == 2
    assert "has no held-out prompts of its own: name benchmarks" in capsys.readouterr().err


def test_a_run_on_verl_is_asked_by_its_task_too(tiny, tmp_path):
    train(tiny, *MINE, "task.heldout=4")
    config = json.loads((tmp_path / "run/config.json").read_text())
    config["engine"] = {"name": "verl", "model": "tiny", "generation": "vllm", "max_tokens": 4}
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    shutil.copytree(tiny, tmp_path / "run/verl/global_step_1/actor/huggingface")
    (tmp_path / "run/verl/latest_checkpointed_iteration.txt").write_text("1")
    assert evaluate("--generation", "transformers") == 0
    results, answers = found(tmp_path / "out")
    first = [(row["prompt"], row["reward"]) for row in rows(tmp_path / "run/evals.jsonl")][:4]
    assert answers == first, "its weights are those that training began with"
    assert results["benchmarks"]["heldout"]["instruction"] == "Be brief."


def test_data_that_was_moved_or_changed_is_told(tiny, tmp_path, capsys):
    train(tiny, *MINE, "task.heldout=4")
    data = tmp_path / "mine.jsonl"
    (tmp_path / "moved").mkdir()
    data.rename(tmp_path / "moved/mine.jsonl")
    capsys.readouterr()
    assert evaluate() == 2
    assert "run 'run': task.path = 'mine.jsonl': no such file" in capsys.readouterr().err
    assert evaluate("task.path=moved/mine.jsonl") == 0
    made_up_problems.write(data, 12)
    capsys.readouterr()
    assert evaluate(out="changed") == 2
    assert "prompts that training tested on are not held out now" in capsys.readouterr().err


def test_a_reward_that_fails_is_said_and_counts_as_nothing(tiny, tmp_path, monkeypatch, capsys):
    def breaks(prompt, reply):
        if prompt.id.endswith("xx"):
            raise ValueError("too many x")
        return odd(reply, prompt.id)

    def episode(self, prompt):
        chat = [{"role": "user", "content": prompt.id}]
        return SingleTurn(chat, lambda reply: breaks(prompt, reply))

    monkeypatch.setattr(Dialogues, "episode", episode)
    train(tiny, "task=dialogues")
    assert evaluate() == 0
    metrics, rewards = last_test(tmp_path / "run")
    results, answers = found(tmp_path / "out")
    assert answers == rewards
    assert results["benchmarks"]["heldout"]["failed"] == metrics["eval/failed"] == 3
    assert "failed, which counts as 0: ValueError: too many x" in capsys.readouterr().out
