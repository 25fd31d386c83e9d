"""Words of engine.overrides that are about one start or about memory, in the folder of a run."""

import json
from pathlib import Path

import pytest

from metis.cli import main
from metis.config import load
from metis.core import state
from metis.engines import model_files
from metis.engines.verl.launch import command as launch
from metis.run.budget import Account, Budget
from metis.run.folder import RunFolder

OFFLOAD = "actor_rollout_ref.actor.fsdp_config.param_offload=True"
BALANCE = "trainer.balance_batch=False"


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """A run at step 5 of 5 with a checkpoint of step 3 too; starts it again with such overrides."""
    monkeypatch.setattr(model_files, "model", Path)
    monkeypatch.setattr(model_files, "look_for", lambda name: None)
    started = []
    monkeypatch.setattr(launch, "_run", lambda command, _: started.append(command) or 0)
    words = ["engine=verl", "engine.generation=transformers", "engine.model=/m", "task.prompts=40"]
    document = load(None, [*words, "steps=5", f"engine.overrides={json.dumps([BALANCE])}"]).resolved
    with RunFolder.open(tmp_path / "run", document):
        pass
    for step in (3, 5):
        checkpoint = tmp_path / "run" / "verl" / f"global_step_{step}"
        checkpoint.mkdir(parents=True)
        state.save(checkpoint / "metis.state", Account(Budget(steps=5), step).state_dict())
    (tmp_path / "run" / "verl" / "latest_checkpointed_iteration.txt").write_text("5")

    def again(*given, more=()):
        started.clear()
        given = f"engine.overrides={json.dumps(given)}"
        code = main(["train", *words, "steps=5", given, *more, "--out", str(tmp_path / "run")])
        return code, [word for command in started for word in command]

    return again


def overrides_of(run):
    return json.loads((run / "config.json").read_text())["engine"]["overrides"]


def test_words_about_one_start_may_be_others_and_are_not_kept(ended, tmp_path):
    assert ended(BALANCE) == (0, []), "the run is complete"
    third = f"trainer.resume_from_path={tmp_path}/run/verl/global_step_3"
    for given in (
        ["trainer.val_only=True"],
        ["trainer.resume_mode=resume_path", third],
        ["trainer.resume_mode=disable"],
    ):
        code, started = ended(BALANCE, *given)
        assert code == 0 and started[-len(given) :] == given
        assert overrides_of(tmp_path / "run") == [BALANCE]
    assert ended("trainer.val_only=True")[0] == 2, "another word is missing"


def test_words_about_memory_may_be_others_and_are_kept(ended, tmp_path, capsys):
    more = ["steps=6"]
    assert ended(BALANCE, OFFLOAD, f"+{OFFLOAD.replace('param', 'optimizer')}", more=more)[0] == 2
    assert "Could not append" in capsys.readouterr().err, "verl has that one already"
    code, started = ended(BALANCE, OFFLOAD, more=more)
    assert code == 0 and started[-1] == OFFLOAD
    assert overrides_of(tmp_path / "run") == [BALANCE, OFFLOAD]
    assert ended(BALANCE, more=more)[0] == 0 and overrides_of(tmp_path / "run") == [BALANCE]
    assert ended(more=more)[0] == 2
    assert "engine.overrides = ['trainer.balance_batch=False'], not []" in capsys.readouterr().err


def test_a_dry_run_says_where_a_start_with_such_words_begins(ended, tmp_path, capsys):
    third = f"trainer.resume_from_path={tmp_path}/run/verl/global_step_3"
    ended(BALANCE, "trainer.resume_mode=resume_path", third, more=["--dry-run"])
    assert "would resume from step 3\n" in capsys.readouterr().err
    ended(BALANCE, "trainer.resume_mode=disable", more=["--dry-run"])
    assert "would start over: trainer.resume_mode is 'disable'\n" in capsys.readouterr().err
