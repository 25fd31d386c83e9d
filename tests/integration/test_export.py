"""`metis export`: what other programs load answers as the run did, and says where it is from."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from transformers import AutoModelForCausalLM

import metis
from metis import MetisError
from metis.cli import main
from metis.data import fetched
from metis.engines.local.model.checkpoint import load_weights
from metis.engines.local.model.policy import Policy
from metis.export import card, write
from metis.run import models
from metis.tasks.file import FileTask

TOKENS = torch.arange(3, 40)[None]


class Even:
    """A reward that an untrained model earns half of the time; remembers what was said."""

    said: dict[str, str]

    def __init__(self, text):
        self.chat, self.answer = [{"role": "user", "content": text}], ""

    def reply(self, text):
        self.answer = self.said[self.chat[0]["content"]] = text

    def reward(self):
        return float(len(self.answer) % 2)


def train(model, out, lora=0):
    """Two steps on 50 problems; what the run answered in its last test."""
    rows = [{"problem": f"Add {n} to {n * n}.", "answer": str(n + n * n)} for n in range(50)]
    path = out.with_suffix(".jsonl")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        Even.said = {}
        patch.setattr(FileTask, "episode", lambda self, prompt: Even(prompt.text))
        run = metis.train(
            model=model,
            task={"name": "file", "path": path, "heldout": 20},
            engine={"device": "cpu", "max_tokens": 8, "learning_rate": 1e-3, "lora": lora},
            curriculum="uniform",
            steps=2,
            batch=2,
            group=2,
            evaluate=0,
            out=out,
            show=False,
        )
    return run, dict(list(Even.said.items())[:20])  # the test before training asks them first


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    pytest.importorskip("peft")
    place = tmp_path_factory.mktemp("runs")
    return {lora: train(tiny, place / f"lora-{lora}", lora)[0] for lora in (0, 2)}


def test_all_messages_of_a_run_can_be_exported(runs, tmp_path):
    run = runs[0]
    assert main(["export", str(run.path), "--messages", str(tmp_path / "all.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    for kind, told in (("train", run.rollouts), ("eval", run.validations)):
        written = [row for row in rows if row["kind"] == kind]
        assert len(written) == len(told) > 0
        for row, known in zip(written, told, strict=True):
            names = ("step", "prompt", "rollout", "reward", "tokens", "truncated", "trained")
            assert [row[name] for name in names] == [known[name] for name in names]
            assert [turn["role"] for turn in row["messages"]][-2:] == ["user", "assistant"]
            asked, said = row["messages"][-2:]
            assert (asked["content"], said["content"]) == (known["text"], known["answer"])


def policy_of(run, settings, lora):
    policy = Policy(Path(run.config["engine"]["model"]), replace(settings, lora=lora))
    load_weights(models.find_checkpoint(run.path, "last").path, policy)
    return policy


@torch.no_grad()
def logits(network):
    return network(input_ids=TOKENS).logits


PROGRAM = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, prompts = sys.argv[1], json.loads(sys.stdin.read())
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
answers = {}
for text in prompts:
    chat = [{"role": "user", "content": text}]
    asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
    answer = model.generate(**asked, max_new_tokens=8, do_sample=False)
    said = answer[0, asked["input_ids"].shape[1] :]
    answers[text] = tokenizer.decode(said, skip_special_tokens=True)
print(json.dumps(answers))
"""

EMBEDDED = pytest.param(
    "smollm2-135m",
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(
            not (fetched.home() / "models/smollm2-135m").is_dir(),
            reason="needs smollm2-135m: make test fetches it",
        ),
    ],
)


@pytest.mark.parametrize("model", ["tiny", EMBEDDED])
def test_plain_transformers_elsewhere_answers_as_the_run_did(model, tiny, tmp_path):
    run, said = train(tiny if model == "tiny" else model, tmp_path / "run")
    assert len(said) == 20
    by_answer = sorted(said, key=said.get)
    said = {text: said[text] for text in by_answer[:3] + by_answer[-3:]}
    assert len(set(said.values())) > 1
    assert any(row.get("update/steps") for row in run.metrics)
    folder = run.export(tmp_path / "exported", checkpoint="last")
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(folder)],
        input=json.dumps(list(said)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
    )
    assert json.loads(answer.stdout) == said


def test_the_command_copies_weights_as_they_are(runs, tmp_path, capsys):
    run = runs[0]
    target = tmp_path / "model"
    command = ["export", str(run.path), str(target), "--checkpoint", "last"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert f"last checkpoint, step 2 → {target}" in shown and "MB of weights" in shown
    last = models.find_checkpoint(run.path, "last").path
    weights = "model.safetensors"
    assert (target / weights).read_bytes() == (last / weights).read_bytes()
    names = {path.name for path in target.iterdir()}
    assert {"config.json", "tokenizer.json", "chat_template.jinja", "README.md"} <= names
    assert not {"optimizer.pt", "run.state", "engine.state"} & names
    assert {path.name for path in tmp_path.iterdir()} == {"model"}
    assert main(command) == 2
    assert "is already there: name a folder that is new" in capsys.readouterr().err


@pytest.mark.parametrize("lora", [0, 2])
def test_adapters_are_merged_and_weights_may_be_rounded(runs, settings, tmp_path, lora):
    run = runs[lora]
    expected, whole = logits(policy_of(run, settings, lora).network), {}
    for dtype, closeness in (("float32", 1e-5), ("bfloat16", 0.2), ("float16", 0.02)):
        folder = run.export(tmp_path / dtype, "last", "" if dtype == "float32" else dtype)
        network, kind = AutoModelForCausalLM.from_pretrained(folder), getattr(torch, dtype)
        assert network.dtype == kind
        weights = network.state_dict()
        whole = whole or weights
        assert all(torch.equal(weights[name], whole[name].to(kind)) for name in whole)
        assert torch.allclose(logits(network.float()), expected, atol=closeness)
        assert not list(folder.glob("adapter*"))
        ends = json.loads((folder / "generation_config.json").read_text())
        assert set(ends) == {"eos_token_id", "pad_token_id", "transformers_version"}


def test_an_adapter_can_be_exported_alone(runs, settings, tmp_path):
    from peft import AutoPeftModelForCausalLM

    folder = runs[2].export(tmp_path / "adapter", "last", adapter=True)
    assert not (folder / "model.safetensors").exists()
    network = AutoPeftModelForCausalLM.from_pretrained(folder)
    expected = logits(policy_of(runs[2], settings, 2).network)
    assert torch.allclose(logits(network), expected, atol=1e-6)
    card = (folder / "README.md").read_text()
    assert "library_name: peft" in card
    assert f"by its folder, `{runs[2].config['engine']['model']}`" in card


def test_what_cannot_be_read_is_not_called_a_full_disk(runs, tmp_path, monkeypatch):
    opened = Path.open

    def closed(path, *words, **more):
        if path.name == "model.safetensors" and path.is_relative_to(runs[0].path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *words, **more)

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(MetisError, match=r"model.safetensors' cannot be read \(Permission denied"):
        runs[0].export(tmp_path / "model", "last")
    assert not list(tmp_path.iterdir())


def test_the_card_has_the_run_s_facts_and_its_settings_train_again(runs, tmp_path, capsys):
    from huggingface_hub import ModelCard

    run = runs[0]
    folder = run.export(tmp_path / "model", "last")
    shown = ModelCard.load(folder / "README.md")
    assert shown.data.library_name == "transformers" and shown.data.base_model is None
    tests = [row for row in run.metrics if "eval/accuracy" in row]
    for row in (tests[0], tests[-1]):
        assert f"{row['eval/accuracy']:.3f} ± {row['eval/stderr']:.3f}" in shown.text
    assert run.config["engine"]["model"] in shown.text and "| 8 " in shown.text
    assert "last, step 2 of 2" in shown.text and f"metis {metis.__version__}" in shown.text
    capsys.readouterr()
    assert main(["train", str(folder / "metis_run.json"), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == run.config


def test_a_wrong_call_is_one_line_and_leaves_nothing(runs, tiny, tmp_path, capsys):
    plain, target = str(runs[0].path), str(tmp_path / "new")
    for words, said in (
        ([plain, target, "--checkpoint", "7"], "has no checkpoint '7'"),
        ([plain, target, "--adapter"], "was trained without LoRA"),
        ([str(runs[2].path), target, "--adapter", "--dtype", "float16"], "adapters stay as they"),
        ([plain, target, "--dtype", "int8"], "invalid choice: 'int8'"),
        ([str(tiny), target], "is no run folder"),
        ([plain, str(tiny)], "is already there"),
    ):
        assert main(["export", *words]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert said in line
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_whole_is_not_there(runs, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "card", full)
    with pytest.raises(MetisError, match="No space left on device"):
        runs[0].export(tmp_path / "model", "last")
    assert not list(tmp_path.iterdir())


def test_a_run_is_where_the_next_begins(runs, settings, tmp_path, caplog):
    caplog.set_level("INFO", logger="metis")
    run, _ = train(runs[0].path, tmp_path / "next")
    assert run.config["engine"]["model"] == str(runs[0].path)
    assert f"engine.model = {str(runs[0].path)!r}: its " in caplog.text
    assert Policy(runs[0].model, settings).stops
    config = {"engine": {"model": "smollm2-135m"}, "curriculum": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert card.published(str(tmp_path)) == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert card.published(str(runs[0].path)) is None and card.published("no/such") is None
    with pytest.raises(MetisError, match=f"metis export {runs[2].path} DIR"):
        train(runs[2].path, tmp_path / "refused")


@pytest.mark.parametrize("lora", [False, True])
def test_verl_s_shards_are_merged_by_verl(runs, tiny, settings, tmp_path, monkeypatch, lora):
    """With a stand-in for verl's program; tests/on_verl has the real one."""
    run = shutil.copytree(runs[0].path, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["engine"]["name"] = "verl"
    (run / "config.json").write_text(json.dumps(config))
    actor = run / "verl/global_step_2/actor"
    (actor / "huggingface").mkdir(parents=True)
    (run / "verl/latest_checkpointed_iteration.txt").write_text("2")
    with pytest.raises(MetisError, match="verl is not installed here"):
        write.export(run, tmp_path / "model")

    def merge(command, **_):
        assert command[2:5] == ["verl.model_merger", "merge", "--backend"]
        assert command[command.index("--local_dir") + 1] == str(actor)
        target = Path(command[-1])
        shutil.copytree(tiny, target, dirs_exist_ok=True)
        if lora:
            adapter = models.find_checkpoint(runs[2].path, "last").path
            shutil.copytree(adapter, target / "lora_adapter")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(write, "find_spec", lambda name: name)
    monkeypatch.setattr(write.subprocess, "run", merge)
    write.export(run, tmp_path / "model", say=lambda text: None)
    network = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    expected = policy_of(runs[2], settings, 2) if lora else Policy(tiny, settings)
    assert torch.allclose(logits(network), logits(expected.network), atol=1e-5)
