"""Evaluations of a tiny model: the same answers every time, stopped or not, of models and runs."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

import made_up_problems
from metis.cli import main
from metis.evals import suite
from metis.evals.answers import Answerer
from metis.run.folder import checkpoints
from metis.run.transcripts import members
from waiting import wait_until

SHORT = ["--device", "cpu", "--max-tokens", "6", "--rows", "4"]


@pytest.fixture
def problems(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(made_up_problems.write(tmp_path / "made-up.jsonl"))


def files(folder):
    return {name: (folder / name).read_bytes() for name in ("answers.jsonl", "results.json")}


@pytest.mark.parametrize("how", [[], ["--samples", "3", "--temperature", "0.8"]])
def test_two_evaluations_with_one_seed_agree_exactly(tiny, problems, tmp_path, capsys, how):
    for name in ("a", "b"):
        command = ["eval", str(tiny), "--suite", problems, *SHORT, *how, "--out", name]
        assert main(command) == 0
    assert files(tmp_path / "a") == files(tmp_path / "b")
    found = json.loads((tmp_path / "a/results.json").read_text())
    assert found["benchmarks"]["made-up"]["problems"] == 20
    assert (tmp_path / "a/results.md").read_text() in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "a/answers.jsonl").read_text().splitlines()]
    assert len({row["problem"] for row in rows}) == 20
    assert all(len(row["answers"]) == found["samples"] for row in rows)
    texts = {answer["turns"][0] for row in rows for answer in row["answers"]}
    assert len(texts) > 1
    said = [
        [row["messages"][0]["content"] for row in group.rows] for group in members(tmp_path / "a")
    ]
    assert said == [[answer["turns"][0] for answer in row["answers"]] for row in rows]


def test_another_seed_gives_other_samples(tiny, problems, tmp_path):
    sampled = ["eval", str(tiny), "--suite", problems, *SHORT, "--samples", "2"]
    assert main([*sampled, "--out", "a"]) == 0
    assert main([*sampled, "--seed", "1", "--out", "b"]) == 0
    assert files(tmp_path / "a")["answers.jsonl"] != files(tmp_path / "b")["answers.jsonl"]


def test_the_same_command_finds_its_finished_evaluation(tiny, problems, monkeypatch, capsys):
    command = ["eval", str(tiny), "--suite", problems, *SHORT, "--limit", "3"]
    assert main(command) == 0
    monkeypatch.setattr(Answerer, "__init__", None)  # no model is loaded for it
    assert main(command) == 0
    assert "this evaluation is complete" in capsys.readouterr().out


@pytest.fixture(scope="module")
def straight(tiny, tmp_path_factory):
    """An evaluation that was never stopped, and its command up to the folder."""
    folder = tmp_path_factory.mktemp("straight")
    problems = made_up_problems.write(folder / "made-up.jsonl")
    command = ["eval", str(tiny), "--suite", str(problems), *SHORT, "--samples", "2", "--out"]
    assert main([*command, str(folder / "whole")]) == 0
    return folder / "whole", command


@pytest.mark.parametrize("cut", [0, 1, 700, -1, -30])
def test_what_was_left_of_an_evaluation_is_completed_to_the_same_bytes(straight, tmp_path, cut):
    whole, command = straight
    out = tmp_path / "cut"
    shutil.copytree(whole, out)
    log = out / "answers.jsonl"
    log.write_bytes(log.read_bytes()[:cut])
    (out / "results.json").unlink()
    assert main([*command, str(out)]) == 0
    assert files(out) == files(whole)


def test_killed_at_any_moment_it_goes_on(straight, tmp_path):
    whole, command = straight
    out = tmp_path / "killed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))

    program = [sys.executable, "-W", "ignore", "-m", "metis.cli", *command, str(out)]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, env=environment)
    log = out / "answers.jsonl"
    wait_until(lambda: log.exists() and log.stat().st_size > 0, process)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert main([*command, str(out)]) == 0
    assert files(out) == files(whole)


def test_other_settings_or_rows_are_not_mixed_in(tiny, problems, tmp_path, capsys):
    command = ["eval", str(tiny), "--suite", problems, *SHORT, "--out", "a"]
    assert main(command) == 0
    assert main([*command, "--seed", "1"]) == 2
    assert "seed = 0, not 1" in capsys.readouterr().err
    log = tmp_path / "a/answers.jsonl"
    first, *rest = log.read_text().splitlines(keepends=True)
    log.write_text("".join([first.replace("made-up:", "other:"), *rest[:-1]]))
    assert main(command) == 2
    assert "damaged or of another evaluation" in capsys.readouterr().err


def test_a_prompt_that_fills_the_context_is_wrong_and_harms_no_other(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"problem": text, "answer": "1"} for text in ("long " * 600, "short")]
    (tmp_path / "two.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(["eval", str(tiny), "--suite", "two.jsonl", *SHORT, "--out", "a"]) == 0
    found = [json.loads(line) for line in (tmp_path / "a/answers.jsonl").read_text().splitlines()]
    [long] = [row["answers"][0] for row in found if row["problem"].endswith(":1")]
    assert (long["tokens"], long["finish"], long["scores"]["faithful"]) == (0, "failed", 0.0)
    assert "no room for an answer" in long["error"]


def train(tiny, problems, *settings):
    command = ["train", "task=math", f"task.path={problems}", "task.verify=false"]
    command += ["task.heldout=4", f"engine.model={tiny}", "engine.device=cpu"]
    command += ["engine.max_tokens=4", "engine.learning_rate=1e-2", "steps=2", "batch=2"]
    command += ["group=2", "evaluate=1", "checkpoints.every=1", "curriculum=uniform"]
    return main([*command, *settings, "--out", "run"])


@pytest.mark.parametrize("lora", [0, 2])
def test_a_run_is_evaluated_as_it_was_when_it_was_saved(tiny, problems, tmp_path, lora, capsys):
    if lora:
        pytest.importorskip("peft")
    assert train(tiny, problems, f"engine.lora={lora}") == 0
    command = ["eval", "run", "--suite", problems, "--device", "cpu", "--limit", "4"]
    capsys.readouterr()
    assert main([*command, "--checkpoint", "best"]) == 2
    assert "has no best checkpoint" in capsys.readouterr().err
    step, folder = checkpoints(tmp_path / "run")[-1]
    assert main([*command, "--out", "none"]) == 0
    assert f"run (last, step {step}) on " in capsys.readouterr().out
    (tmp_path / "run/checkpoints/best").symlink_to(folder)
    for name in ("best", "last"):
        assert main([*command, "--checkpoint", name, "--out", name]) == 0
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert (config["checkpoint"], config["step"], config["max_tokens"]) == (name, step, 4)
    answers = (tmp_path / "best/answers.jsonl").read_bytes()
    assert answers == (tmp_path / "last/answers.jsonl").read_bytes()
    assert answers == (tmp_path / "none/answers.jsonl").read_bytes()


def test_the_weights_of_the_checkpoint_are_the_ones_that_answer(tiny, problems, tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    assert train(tiny, problems, "steps=1") == 0
    command = ["eval", "run", "--suite", problems, *SHORT, "--checkpoint", "last", "--out"]
    assert main([*command, "before"]) == 0
    [(_, folder)] = checkpoints(tmp_path / "run")
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(1)
    changed = {name: value + torch.randn_like(value) for name, value in weights.items()}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    assert main([*command, "after"]) == 0
    answers = [(tmp_path / name / "answers.jsonl").read_bytes() for name in ("before", "after")]
    assert answers[0] != answers[1]


def test_a_run_can_be_tested_on_benchmarks_while_it_trains(tiny, problems, tmp_path):
    for name, count in (("easy", 4), ("all", 12)):
        made_up_problems.write(tmp_path / f"{name}.jsonl", count)
    assert train(tiny, problems, "benchmarks=['easy.jsonl','all.jsonl']") == 0
    metrics = [
        json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    ]
    evals = [json.loads(line) for line in (tmp_path / "run/evals.jsonl").read_text().splitlines()]
    assert [row["prompt"].partition(":")[0] for row in evals[:16]] == ["easy"] * 4 + ["all"] * 12
    for row in metrics:
        parts = [row["eval/accuracy/easy"], row["eval/accuracy/all"]]
        assert row["eval/accuracy"] == pytest.approx(sum(parts) / 2)


def test_a_wrong_call_is_one_line(tiny, problems, capsys):
    for words, said in (
        (["--samples", "0"], "--samples = 0: use at least 1"),
        (["--limit", "0"], "--limit = 0: use at least 1"),
        (["--vllm-cache", "-1"], "--vllm-cache = -1.0: use at least 0"),
        (["--vllm-cache", "inf"], "engine.vllm_cache = inf: use 0 or more"),
        (["--samples", "4", "--temperature", "0"], "greedy answers are all the same"),
        (["--temperature", "nan"], "--temperature = nan"),
        (["--top-p", "0"], "--top-p = 0.0"),
    ):
        assert main(["eval", str(tiny), "--suite", problems, *words]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and said in lines[0]


def test_replaced_weights_are_another_evaluation(tiny, problems, tmp_path, capsys):
    for place in ("a", "b"):
        shutil.copytree(tiny, tmp_path / place / "model")
    command = ["--suite", problems, *SHORT, "--limit", "2"]
    assert main(["eval", "a/model", *command]) == main(["eval", "b/model", *command]) == 0
    assert len(list((tmp_path / "evals").iterdir())) == 1
    weights = tmp_path / "b/model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    assert main(["eval", "b/model", *command]) == 0
    assert len(list((tmp_path / "evals").iterdir())) == 2


def test_a_model_that_cannot_be_loaded_leaves_no_folder(problems, tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    assert main(["eval", "model", "--suite", problems, *SHORT]) == 2
    assert "cannot be loaded" in capsys.readouterr().err
    assert not (tmp_path / "evals").exists()


def test_a_file_that_is_half_written_never_counts(tmp_path):
    with suite.AnswerFolder.open(tmp_path / "a", {"schema": 1}) as folder:
        folder.append("answers", [{"benchmark": "x"}])
        with (tmp_path / "a/answers.jsonl").open("ab") as file:
            file.write(b'{"benchmark": "y"')
        assert [row["benchmark"] for _, row in folder.rows()] == ["x"]
