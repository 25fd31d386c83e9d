"""Function calling on the local engine with a tiny random model: tokens, training, evaluation."""

import json
from pathlib import Path

import numpy as np
import pytest

import bfcl_package
from integration.conftest import save_tiny
from metis.cli import main
from metis.core import Sampling
from metis.data import parquet
from metis.engines.local.generate.sampling import SampledReply
from metis.engines.local.model.policy import Policy
from metis.engines.local.rollouts import play
from metis.engines.local.settings import LocalSettings
from metis.engines.rewards import RewardRunner
from metis.prepare import bfcl_sets
from metis.prepare.bfcl import row_of
from metis.run.folder import read_log
from metis.tasks.bfcl import calls
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.episode import Episode
from metis.tasks.bfcl.task import Bfcl, Dialogues, build

bfcl_package.require()

SHORT = ["engine.device=cpu", "engine.max_tokens=4", "steps=2", "batch=2", "group=2", "evaluate=0"]
SHORT += ["engine.learning_rate=1e-3", "curriculum=metis", "curriculum.multiplier=2"]
SHORT += ["task=bfcl", "task.heldout=1", "checkpoints.every=1"]


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    """A tiny model whose context holds a dialogue, byte by byte."""
    folder = save_tiny(tmp_path_factory.mktemp("roomy"))
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**about, "max_position_embeddings": 16384}))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The shortest dialogues: bytes are many tokens."""
    return bfcl_package.write(tmp_path_factory.mktemp("bfcl"), 8)


@pytest.fixture
def paths(data):
    return [f"{key}={path}" for key, path in data.items()]


@pytest.fixture
def acting(monkeypatch):
    """Some first replies to a user stand for the right calls, which no random model writes."""
    reply = Episode.reply

    def acted(self, text):
        if self.step == 0 and len(text) % 2:
            right = self.dialogue.truth[self.turn]
            text = f"[{', '.join(right)}]" if right else text
        elif self.step:
            text = "Done."
        return reply(self, text)

    monkeypatch.setattr(Episode, "reply", acted)


def spoken(policy, task, prompt, said):
    """Two rollouts of a policy that says this, turn by turn, and their errors."""
    turns = iter(said)

    def script(prompts, copies, sampling):
        text = next(turns)
        tokens = [*policy.encode_reply(text), policy.tokenizer.eos_token_id]
        count = copies * len(prompts)
        return enumerate(SampledReply(tokens, [-0.5] * len(tokens), "stop") for _ in range(count))

    rewards = RewardRunner(30)
    [group], errors = play(policy, task, [prompt], 2, Sampling(512), script, rewards, 8, version=0)
    rewards.close()
    return group, errors


def test_a_lone_surrogate_is_no_way_out_of_a_bad_reward(roomy):
    """The simulator repeats the name of a file that exists, in an error of its own."""
    dialogue = next(
        each for each in bfcl_sets.official("base") if each.names[-1] == "GorillaFileSystem"
    )
    name = "'\\ud800'"
    again = f"cp(source={name}, destination='d')"
    said = [f"[mkdir(dir_name='d'), touch(file_name={name}), {again}, {again}]"]
    said += ["Done."] * len(dialogue.truth)
    policy = Policy(roomy, LocalSettings(model=str(roomy), device="cpu"))
    task = Dialogues(Bfcl(), [dialogue], [])
    [message] = task.episode(dialogue.prompt).reply(said[0])
    assert "\ud800" in message["content"]
    group, errors = spoken(policy, task, dialogue.prompt, said)
    assert errors == [] and len(group.rewards) == 2 and max(group.rewards) < 0.1


def test_only_what_the_policy_wrote_is_trained_on(roomy, data):
    task = build(Bfcl(*data.values()), 0)
    prompt = task.training()[0]
    dialogue = task.episode(prompt).dialogue
    said = [
        text
        for turn in dialogue.truth
        for text in ([f"[{', '.join(turn)}]"] if turn else []) + ["Done."]
    ]
    policy = Policy(roomy, LocalSettings(model=str(roomy), device="cpu"))
    group, errors = spoken(policy, task, prompt, said)
    assert errors == [] and group.rewards == (1.0, 1.0)
    [trajectory, _] = group.trajectories
    written = policy.decode(trajectory.tokens[trajectory.loss_mask].tolist())
    assert written == "".join(said)
    before = policy.encode_chat(dialogue.chat)
    assert trajectory.tokens[: len(before)].tolist() == before
    unwritten = policy.decode(trajectory.tokens[~trajectory.loss_mask].tolist())
    assert "Results:" in unwritten and dialogue.questions[-1] in unwritten
    assert np.all(trajectory.logprobs[~trajectory.loss_mask] == 0)


def test_metis_trains_on_it_end_to_end(roomy, paths, tmp_path, capsys, acting):
    out = tmp_path / "run"
    words = [*SHORT, *paths, f"engine.model={roomy}"]
    assert main(["train", *words, "--out", str(out)]) == 0
    assert "held-out accuracy" in capsys.readouterr().out
    rows = read_log(out, "metrics")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert any(row.get("update/steps") == 1.0 for row in rows)
    assert all(0 <= row["reward/official"] <= 1 for row in rows[1:])
    rollouts = read_log(out, "rollouts")
    assert any(0 < reward < 1 for row in rollouts for reward in row["rewards"])
    shown = read_log(out, "prompts")
    assert shown and all("\n\nAPIs: " in row["text"] for row in shown)
    assert main(["eval", str(out), "--checkpoint", "last", "--out", str(tmp_path / "eval")]) == 0
    found = json.loads((tmp_path / "eval" / "results.json").read_text())["benchmarks"]["heldout"]
    assert found["scores"]["faithful"]["accuracy"] == pytest.approx(rows[-1]["eval/accuracy"])
    assert "official" in found["scores"]


def test_a_random_model_answers_without_an_error(roomy, paths, tmp_path):
    """No call is in what it says; every episode comes to its end, and earns nothing."""
    out = tmp_path / "run"
    words = [*SHORT, *paths, f"engine.model={roomy}", "steps=1"]
    assert main(["train", *words, "--out", str(out)]) == 0
    assert {reward for row in read_log(out, "rollouts") for reward in row["rewards"]} == {0.0}
    assert read_log(out, "metrics")[1]["rollout/failed"] == 0
    assert calls.read("no call") == []


def test_an_evaluation_reports_the_official_verdict_beside_the_reward(
    roomy, data, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    about = {"request": {}, "outcomes": []}
    [dialogue, _] = (Dialogue.read(row["reward_model"]["ground_truth"]) for row in heldout(data))
    parquet.write(tmp_path / "heldout.parquet", [row_of(dialogue, 0, "heldout")], about)
    name = f"bfcl_{dialogue.category}"
    words = [str(roomy), "--suite", name, "--samples", "2", "--max-tokens", "4", "--device", "cpu"]
    assert main(["eval", *words, "--data", str(tmp_path), "--out", str(tmp_path / "eval")]) == 0
    assert "official verdict" in capsys.readouterr().out
    found = json.loads((tmp_path / "eval" / "results.json").read_text())
    assert found["benchmarks"][name]["scores"].keys() == {"faithful", "official"}
    assert found["metric"] == "mean@2"


def heldout(data):
    return map(json.loads, Path(data["task.heldout_path"]).read_text().splitlines())
