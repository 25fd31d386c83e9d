"""Checks of a dry run, with nothing started: settings, models and checkpoints."""

import json
import subprocess
import sys

import pytest
from transformers import Qwen3NextConfig

from integration.conftest import save_tiny
from metis.cli import main
from metis.engines.verl.launch import checks
from metis.engines.verl.launch import command as launch


@pytest.fixture
def dry(tmp_path, capsys, monkeypatch):
    """A dry run: its exit code, the command, and what it said beside it."""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))

    def run(*words, given=()):
        usual = ["engine=verl", "task.prompts=400", f"engine.overrides={json.dumps(given)}"]
        out = tmp_path / "run"
        code = main(["train", *usual, *words, "--dry-run", "--out", str(out)])
        assert not out.exists()
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["trainer.savefreq=5"], "Could not override 'trainer.savefreq'"),
        (["trainer.save_freq"], "trainer.save_freq"),
        (["trainer.logger=[console,papyrus]"], "trainer.logger = 'papyrus': use some of wandb"),
        (["trainer.use_v1=False"], "trainer.use_v1 = False: must be True"),
        (["algorithm.adv_estimator=gae"], "algorithm.adv_estimator = 'gae'"),
        (["actor_rollout_ref.actor.loss_agg_mode=mean"], "Invalid loss_agg_mode: mean"),
        (["actor_rollout_ref.rollout.mode=sync"], "engine.overrides: verl refuses this config"),
        (["actor_rollout_ref.actor.use_dynamic_bsz=False"], "ppo_micro_batch_size_per_gpu = None"),
        (["actor_rollout_ref.model.use_fused_kernels=True"], "no logits"),
        (["trainer.resume_mode=resume_path"], "trainer.resume_from_path = None: no such folder"),
    ],
)
def test_settings_that_verl_or_the_trainer_would_refuse_are_refused(dry, given, said):
    code, printed, errors = dry(given=given)
    assert code == 2 and not printed
    assert said in errors.splitlines()[-1]


def test_what_the_curriculum_lacks_is_refused(dry):
    code, _, errors = dry("curriculum=pcl")
    assert code == 2 and "critic.enable = None" in errors.splitlines()[-1]


def test_a_value_model_without_flash_attn_is_refused(dry, monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    critic = ["critic.enable=True", "critic.model.path=/m", "critic.optim.lr=1e-4"]
    code, printed, errors = dry("curriculum=pcl", given=critic)
    assert code == 2 and not printed and "flash-attn, which is not installed" in errors


UNPACKED = "actor_rollout_ref.model.use_remove_padding=False"
PASSES = "curriculum.judge.scale=passes"


def test_values_of_several_tokens_need_packed_rows(dry, tmp_path):
    words = [f"engine.model={save_tiny(tmp_path / 'model')}", "engine.max_tokens=64"]
    code, printed, errors = dry(*words, given=[UNPACKED])
    assert code == 2 and not printed
    assert "use_remove_padding = False" in errors
    assert dry(*words, PASSES, given=[UNPACKED])[0] == dry(*words)[0] == 0


def test_values_of_several_tokens_need_layers_that_look_at_positions(dry, tmp_path):
    model = save_tiny(tmp_path / "model")
    Qwen3NextConfig(max_position_embeddings=2048).save_pretrained(model)
    words = [f"engine.model={model}", "engine.max_tokens=64"]
    code, printed, errors = dry(*words)
    assert code == 2 and not printed and "['linear_attention']" in errors
    assert dry(*words, PASSES)[0] == 0


def test_settings_that_verl_takes_are_printed_alone(dry):
    code, printed, errors = dry(given=["trainer.balance_batch=False"])
    assert code == 0 and printed.startswith("VERL_USE_EXTERNAL_MODULES=")
    assert "trainer.balance_batch=False" in printed and "validate_config" not in printed + errors


def test_a_model_that_is_not_there_is_refused(dry, tmp_path):
    for name in (str(tmp_path / "none"), str(tmp_path / "none.gguf")):
        code, printed, errors = dry(f"engine.model={name}")
        assert code == 2 and not printed and f"engine.model = {name!r}: no such file" in errors
    (tmp_path / "empty").mkdir()
    code, _, errors = dry(f"engine.model={tmp_path / 'empty'}")
    assert code == 2 and "no config.json" in errors
    assert dry(f"engine.model={save_tiny(tmp_path / 'model')}", "engine.max_tokens=64")[0] == 0


def test_where_verl_is_not_installed_a_dry_run_says_that_nobody_looked(dry, monkeypatch):
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    code, printed, errors = dry(given=["trainer.savefreq=5"])
    assert code == 0 and "trainer.savefreq=5" in printed
    assert "verl is not installed here: its settings were not checked" in errors


def test_a_verl_that_does_not_load_is_one_line(dry, monkeypatch):
    monkeypatch.delattr("metis.engines.verl.launch.checks", raising=False)
    monkeypatch.setitem(sys.modules, "metis.engines.verl.launch.checks", None)
    code, _, errors = dry()
    assert code == 2 and "verl cannot be imported (" in errors.splitlines()[-1]
    assert "it cannot share one with trl" in errors


def test_a_marker_without_its_folder_is_refused_by_a_dry_run(tmp_path, capsys):
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "latest_checkpointed_iteration.txt").write_text("30")
    words = ["train", "engine=verl", "task.prompts=400", "--dry-run", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "names global_step_30, which is not there: restore it" in capsys.readouterr().err


def test_a_run_refuses_the_same_before_a_folder_is_made(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        launch.model_files, "model", lambda name: pytest.fail("a model was fetched")
    )
    words = ["engine=verl", "engine.generation=transformers", "task.prompts=40"]
    words += ['engine.overrides=["trainer.savefreq=5"]', "--out", str(tmp_path / "run")]
    assert main(["train", *words]) == 2
    assert "Could not override 'trainer.savefreq'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
