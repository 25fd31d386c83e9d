"""`metis train engine=verl` on a task of several turns, with LoRA: a tiny model on this CPU."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

import own_task
from integration.conftest import save_tiny
from metis.run import folder as run_folder
from metis.run.transcripts import members, segments
from running import cpu_overrides, finish, start

pytestmark = pytest.mark.slow

FROM_THE_RECIPE = (
    "reward.custom",
    "actor_rollout_ref.actor.strategy",
    "actor_rollout_ref.actor.checkpoint",
    "actor_rollout_ref.actor.optim",
)
"""Overrides of a CPU that would hide what `metis train` makes of a recipe with LoRA."""
GAMES = """
from own_task import GuessingGame, GuessingGames


class Game(GuessingGame):
    def reward(self):
        return {"score": (len(self.last) % 3) / 2, "tries": self.tries}

    def reply(self, text):
        self.last = text
        return super().reply(text)


class Games(GuessingGames):
    def episode(self, prompt):
        return Game(int(prompt.id.removeprefix("guess:")))
"""


def test_a_task_of_several_turns_is_trained_tested_on_and_resumed(tmp_path, monkeypatch):
    """On two workers."""
    (tmp_path / "synced").mkdir()
    monkeypatch.setenv("METIS_TESTS_SYNCED", str(tmp_path / "synced"))
    model = save_tiny(tmp_path / "model")
    (tmp_path / "games.py").write_text(GAMES)
    shutil.copy(own_task.__file__, tmp_path)  # a task may import its neighbours
    out = tmp_path / "run"
    extra = [word for word in cpu_overrides(2) if not word.startswith(FROM_THE_RECIPE)]
    words = [
        *("engine=verl", f"engine.model={model}", f"engine.overrides={extra}"),
        *("engine.generation=transformers", "engine.max_prompt=64", "engine.context=1024"),
        *("engine.tokens=2048", "engine.max_tokens=6", "engine.episode_tokens=90"),
        *("engine.lora=2", "engine.kl=0.01"),
        *("engine.learning_rate=0.1", "batch=2", "group=3", "evaluate=1"),
        *(f"task={tmp_path}/games.py:Games", "task.tests=2", "curriculum=uniform"),
    ]
    command = ["-m", "metis.cli", "train", *words, "--out", str(out)]
    finish(start([*command, "steps=1"], tmp_path / "log"), tmp_path / "log")
    rows = run_folder.read_log(out, "metrics")
    assert [row["step"] for row in rows] == [0, 1]
    assert rows[1]["rollout/failed"] == 0 and rows[1]["update/rollouts"] == 6
    assert rows[1]["reward/tries"] > 1 and rows[1]["actor/grad_norm"] > 0
    assert "eval/accuracy" in rows[1]
    assert_said_is_kept(out)
    said = {file.name: file.read_bytes() for file in segments(out)}
    assert_adapters_reached_both_servers(tmp_path / "synced")
    assert (out / "verl/global_step_1/actor/lora_train_meta.json").exists()

    learnt = load_file(tmp_path / "synced/1-0.safetensors")
    (tmp_path / "synced/1-0.safetensors").unlink()
    finish(start([*command, "steps=2"], tmp_path / "again"), tmp_path / "again")
    assert [row["step"] for row in run_folder.read_log(out, "metrics")] == [0, 1, 2]
    assert [group.head["step"] for group in members(out, "train")] == [1, 1, 2, 2]
    for file in segments(out):
        assert file.read_bytes().startswith(said[file.name]), "the resumed run goes on behind it"
    resumed, further = (load_file(tmp_path / f"synced/{step}-0.safetensors") for step in (1, 2))
    assert all(torch.equal(weight, resumed[name]) for name, weight in learnt.items())
    assert any(not torch.equal(weight, further[name]) for name, weight in learnt.items())
    assert_moments_went_on(out / "verl")


def assert_said_is_kept(run):
    """All turns of all rollouts, and of the validations before and after the step."""
    rewards = {row["prompt"]: row["rewards"] for row in run_folder.read_log(run, "rollouts")}
    groups = list(members(run, "train"))
    assert {g.head["prompt"]: [row["reward"] for row in g.rows] for g in groups} == rewards
    for row in (row for group in groups for row in group.rows):
        said = row["messages"]
        roles = [message["role"] for message in said]
        assert roles[::2] == ["assistant"] * len(roles[::2]) and "user" in roles[1::2]
        assert row["reward"] == len(said[::2][-1]["content"]) % 3 / 2
        assert row["parts"]["tries"] == len(roles[::2]) and row["trained"] and row["tokens"] > 0
    tested = [(group.head["step"], group.head["prompt"]) for group in members(run, "eval")]
    known = [(row["step"], row["prompt"]) for row in run_folder.read_log(run, "evals")]
    assert sorted(tested) == sorted(known) and {step for step, _ in tested} == {0, 1}
    assert {row["prompt"] for row in run_folder.read_log(run, "prompts")} == rewards.keys()


def assert_adapters_reached_both_servers(folder):
    """Before the first step and after it, as it had changed them."""
    before, after = (load_file(folder / f"{step}-0.safetensors") for step in (0, 1))
    assert before and before.keys() == after.keys()
    for name, weight in after.items():
        assert "lora_A" in name or ("lora_B" in name and not before[name].any())
        assert torch.equal(weight, load_file(folder / "1-1.safetensors")[name])
    assert any(weight.any() for name, weight in after.items() if "lora_B" in name)


def assert_moments_went_on(folder):
    """AdamW's moments after the resumed step follow from those before it, by one gradient."""
    before, after = (moments(folder / f"global_step_{step}") for step in (1, 2))
    assert before.keys() == after.keys()
    assert any(first["exp_avg"].any() for first in before.values())
    for name, first in before.items():
        then = after[name]
        assert (first["step"], then["step"]) == (1, 2)
        gradient = (then["exp_avg"] - 0.9 * first["exp_avg"]) / 0.1
        expected = 0.999 * first["exp_avg_sq"] + 0.001 * gradient**2
        torch.testing.assert_close(then["exp_avg_sq"], expected, rtol=1e-3, atol=1e-12)


def moments(checkpoint):
    """AdamW's state in the shard of the first worker, by parameter."""
    path = checkpoint / "actor" / "optim_world_size_2_rank_0.pt"
    kept = torch.load(path, weights_only=False)["state"]
    return {
        name: {key: getattr(value, "_local_tensor", value) for key, value in values.items()}
        for name, values in kept.items()
    }
