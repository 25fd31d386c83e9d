"""Checkpoints on verl: those that stay, those that can be gone on from, and words of one start."""

import contextlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import PPOTrainerSync

from metis import MetisError, files
from metis.cli import main
from metis.config import load_config
from metis.core import state
from metis.engines import model_files
from metis.engines.verl import checkpoints, ending
from metis.engines.verl.launch import command as launch
from metis.engines.verl.trainer import MetisTrainer
from metis.run.budget import Account, Budget
from metis.run.folder import RunFolder

MARKER = checkpoints.MARKER
FROM = "trainer.resume_from_path="


def saved(folder: Path, step: int, elapsed: float = 1.0, marked: bool = True) -> Path:
    """A checkpoint as the trainer leaves it."""
    made = folder / f"global_step_{step}"
    (made / "actor").mkdir(parents=True)
    (made / "actor" / "weights").write_text(f"of step {step}")
    account = Account(Budget(), step, elapsed, best=(step, 0.5))
    state.save_state(made / checkpoints.STATE, account.state_dict())
    if marked:
        (folder / MARKER).write_text(str(step))
    return made


def written_by(part: Path, ranks: int) -> None:
    """The files of an actor or critic that so many ranks write."""
    part.mkdir(exist_ok=True)
    for kind in ("model", "optim", "extra_state"):
        for rank in range(ranks):
            torch.save({}, part / f"{kind}_world_size_{ranks}_rank_{rank}.pt")


def steps(folder):
    return sorted(int(path.name.removeprefix("global_step_")) for path in folder.glob("global_*"))


def test_checkpoints_of_earlier_starts_and_the_remains_of_others_go(tmp_path):
    for step in (10, 20, 30):
        saved(tmp_path, step)
    saved(tmp_path, 35, marked=False)
    (tmp_path / "best").mkdir()
    (tmp_path / "global_step_of_mine").mkdir()
    checkpoints.make_room(tmp_path / "global_step_40", keep=2)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"global_step_30", "best", "global_step_of_mine", MARKER}


@pytest.mark.parametrize(
    ("keep", "left"), [(1, [30]), (2, [30]), (3, [20, 30]), (None, [10, 20, 30]), (0, [10, 20, 30])]
)
def test_as_many_stay_as_are_to_be_kept_beside_the_one_that_comes(tmp_path, keep, left):
    for step in (10, 20, 30):
        saved(tmp_path, step)
    checkpoints.make_room(tmp_path / "global_step_40", keep)
    assert steps(tmp_path) == left


def test_the_last_whole_checkpoint_stays_whatever_was_begun_after_it(tmp_path):
    saved(tmp_path, 10)
    saved(tmp_path, 12, marked=False)
    checkpoints.make_room(tmp_path / "global_step_20", keep=2)
    assert steps(tmp_path) == [10]


def test_an_earlier_attempt_at_the_step_goes_and_best_keeps_its_files(tmp_path):
    folder = saved(tmp_path, 20)
    best = tmp_path / "best"
    files.link_copy(folder, "best")
    checkpoints.make_room(folder, keep=None)
    folder.mkdir()
    (folder / "weights").write_text("of another attempt")
    assert (best / "actor" / "weights").read_text() == "of step 20"


def test_without_a_marker_nothing_is_taken_for_remains(tmp_path):
    for step in (10, 20):
        saved(tmp_path, step, marked=False)
    checkpoints.make_room(tmp_path / "global_step_30", keep=3)
    assert steps(tmp_path) == [10, 20]


def going_on(path, mode="resume_path", **more):
    settings = {"resume_mode": mode, "resume_from_path": path and str(path)}
    gpus = {"nnodes": 1, "n_gpus_per_node": 2}
    trainer = OmegaConf.create({"default_local_dir": "/nowhere", **settings, **gpus, **more})
    checkpoints.prepare_resume(trainer)
    return trainer


def test_a_run_goes_on_from_the_best_checkpoint_whose_own_folder_is_gone(tmp_path):
    folder = saved(tmp_path, 20)
    files.link_copy(folder, "best")
    saved(tmp_path, 40)
    checkpoints.make_room(tmp_path / "global_step_60", keep=2)
    assert steps(tmp_path) == [40]
    trainer = going_on(tmp_path / "best")
    assert trainer.resume_from_path == str(folder)
    assert (folder / "actor" / "weights").read_text() == "of step 20"
    assert checkpoints.step_of(checkpoints.resume_folder(trainer)) == 20
    checkpoints.mark_last(folder)
    assert (tmp_path / MARKER).read_text() == "20"


def test_the_best_checkpoint_is_taken_by_its_own_folder_where_that_is_there(tmp_path):
    folder = saved(tmp_path, 20)
    files.link_copy(folder, "best")
    before = (folder / "actor").stat().st_ino
    assert going_on(tmp_path / "best").resume_from_path == str(folder)
    assert (folder / "actor").stat().st_ino == before
    state.save_state(folder / checkpoints.STATE, Account(Budget(), 20, 7.0).state_dict())
    with pytest.raises(MetisError, match="name global_step_20 is taken"):
        going_on(tmp_path / "best")


def test_what_no_run_can_go_on_from_is_refused_with_what_can(tmp_path):
    with pytest.raises(MetisError, match=r"resume_from_path = .*NUMBER that verl wrote, or 'best'"):
        going_on(tmp_path)
    (tmp_path / "best").mkdir()
    with pytest.raises(MetisError, match=r"best': it has no metis\.state"):
        going_on(tmp_path / "best")
    for path in (None, tmp_path / "global_step_7"):
        with pytest.raises(MetisError, match=r"resume_from_path = .*: no such folder"):
            going_on(path)
    with pytest.raises(MetisError, match=r"resume_mode = 'latest': use one of auto, disable"):
        going_on(None, mode="latest")
    assert going_on(None, mode="auto").resume_from_path is None


def resumed_by_itself(folder, **more):
    return going_on(None, mode="auto", default_local_dir=str(folder), **more)


def test_a_marker_without_its_folder_is_refused_with_the_checkpoints_that_are_there(tmp_path):
    for step in (10, 20, 30):
        saved(tmp_path, step)
    assert resumed_by_itself(tmp_path).resume_mode == "auto"
    files.link_copy(tmp_path / "global_step_10", "best")
    saved(tmp_path, 35, marked=False)
    (tmp_path / "global_step_20" / checkpoints.STATE).unlink()
    shutil.rmtree(tmp_path / "global_step_30")
    with pytest.raises(MetisError) as refused:
        resumed_by_itself(tmp_path)
    said = str(refused.value)
    assert f"{MARKER} names global_step_30, which is not there: resume from best or " in said
    assert f"best or global_step_10 with trainer.resume_mode=resume_path {FROM}{tmp_path}" in said
    assert "or start over with trainer.resume_mode=disable" in said
    assert going_on(None, mode="disable", default_local_dir=str(tmp_path))


def test_a_marked_checkpoint_whose_state_is_missing_or_damaged_is_refused(tmp_path):
    kept = saved(tmp_path, 30) / checkpoints.STATE
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(MetisError, match=r"has a metis\.state that is corrupted"):
        resumed_by_itself(tmp_path)
    kept.unlink()
    with pytest.raises(MetisError, match=r"global_step_30, which has no metis\.state"):
        resumed_by_itself(tmp_path)


def test_a_checkpoint_of_another_number_of_gpus_is_resumed_from(tmp_path):
    folder = saved(tmp_path, 30)
    written_by(folder / "actor", 4)
    assert resumed_by_itself(tmp_path) and going_on(folder)
    assert resumed_by_itself(tmp_path, nnodes=4)


@pytest.mark.parametrize("part", ["actor", "critic"])
@pytest.mark.parametrize("kind", ["model", "optim", "extra_state"])
def test_a_checkpoint_that_lacks_a_file_of_any_rank_is_refused(tmp_path, part, kind):
    folder = saved(tmp_path, 30)
    for each in ("actor", "critic"):
        written_by(folder / each, 2)
    assert resumed_by_itself(tmp_path)
    last = folder / part / f"{kind}_world_size_2_rank_1.pt"
    last.write_bytes(last.read_bytes()[:-1])
    said = rf"lacks 1 of its files or has them incomplete, the first of them {part}/{last.name}"
    with pytest.raises(MetisError, match=said):
        resumed_by_itself(tmp_path)
    last.unlink()
    with pytest.raises(MetisError, match=said):
        going_on(folder)


def test_a_marker_that_names_a_checkpoint_to_be_written_again_goes_with_it(tmp_path):
    for step in (10, 20, 30):
        saved(tmp_path, step)
    checkpoints.make_room(tmp_path / "global_step_20", keep=2)
    assert (tmp_path / MARKER).read_text() == "30"
    checkpoints.make_room(tmp_path / "global_step_30", keep=2)
    assert not (tmp_path / MARKER).exists()


def aside(folder, **account):
    return checkpoints.set_best_aside(folder, Account(Budget(), **account))


def test_the_best_checkpoint_of_an_abandoned_attempt_is_set_aside(tmp_path):
    (tmp_path / "best-of-step-40").mkdir()
    files.link_copy(saved(tmp_path, 40), "best")
    said = aside(tmp_path, step=20, best=(10, 0.4))
    assert said.endswith("renamed to best-of-step-40-2")
    assert not (tmp_path / "best").exists() and not any((tmp_path / "best-of-step-40").iterdir())
    shutil.rmtree(tmp_path / "global_step_40")
    again = going_on(tmp_path / "best-of-step-40-2").resume_from_path
    assert again == str(tmp_path / "global_step_40") and Path(again, "actor", "weights").exists()


def test_the_best_checkpoint_of_an_attempt_before_a_fresh_start_is_set_aside(tmp_path):
    files.link_copy(saved(tmp_path, 40), "best")
    assert aside(tmp_path).endswith("renamed to best-of-step-40")


@pytest.mark.parametrize(
    "account", [{"step": 60, "best": (40, 0.5)}, {"step": 60, "best": (60, 0.6)}]
)
def test_the_best_checkpoint_of_this_attempt_stays(tmp_path, account):
    """Also where the run was stopped before a better one was kept."""
    files.link_copy(saved(tmp_path, 40), "best")
    assert aside(tmp_path, **account) is None and (tmp_path / "best").exists()


def test_a_folder_called_best_that_nobody_can_read_is_left(tmp_path):
    assert aside(tmp_path) is None
    (tmp_path / "best").mkdir()
    assert aside(tmp_path) is None and (tmp_path / "best").exists()


@pytest.fixture
def tested(tmp_path, monkeypatch):
    """A trainer whose step 4 is tested, with what it did then."""

    def test(accuracy, saved=0, save_every=5, best=True):
        did = []
        monkeypatch.setattr(PPOTrainerSync, "_validate", lambda self: {"accuracy": accuracy})
        trainer = MetisTrainer.__new__(MetisTrainer)
        trainer.config = OmegaConf.create({"trainer": {"default_local_dir": str(tmp_path)}})
        trainer.settings, trainer.tested, trainer.batch = {"best": best}, False, "a batch"
        trainer.global_steps, trainer.saved, trainer.save_every = 4, saved, save_every
        trainer.account = Account(Budget(), 4, best=(2, 0.5))
        trainer.account.test({"": [accuracy]})
        trainer.folder.mkdir(exist_ok=True)
        for name in ("_save_state", "_save_checkpoint"):
            monkeypatch.setattr(trainer, name, lambda name=name: did.append(name))
        trainer.checkpoint_manager = SimpleNamespace(
            sleep_replicas=lambda: did.append("sleep"),
            update_weights=lambda step: did.append(f"weights of {step}"),
        )
        trainer._validate()
        return did, (tmp_path / "best").exists()

    return test


def test_a_step_that_tests_best_is_saved_for_it_while_the_servers_sleep(tested):
    assert tested(0.75) == (["sleep", "_save_checkpoint", "weights of 4"], True)


def test_a_step_that_is_saved_already_is_kept_as_it_is(tested):
    assert tested(0.75, saved=4) == (["_save_state"], True)


@pytest.mark.parametrize(
    ("accuracy", "how", "did"),
    [
        (0.25, {}, []),
        (0.25, {"saved": 4}, ["_save_state"]),
        (0.75, {"best": False}, []),
        (0.75, {"save_every": -1}, []),
    ],
)
def test_no_other_test_saves_a_checkpoint(tested, accuracy, how, did):
    assert tested(accuracy, **how) == (did, False)


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
    document = load_config(
        None, [*words, "steps=5", f"engine.overrides={json.dumps([BALANCE])}"]
    ).resolved
    with RunFolder.open(tmp_path / "run", document):
        pass
    for step in (3, 5):
        checkpoint = tmp_path / "run" / "verl" / f"global_step_{step}"
        checkpoint.mkdir(parents=True)
        state.save_state(checkpoint / "metis.state", Account(Budget(steps=5), step).state_dict())
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


def test_the_reason_of_an_end_is_the_last_line_until_the_next_start(
    ended, tmp_path, capsys, monkeypatch
):
    def run(*_):
        with contextlib.suppress(MetisError), ending.told(tmp_path / "run" / "verl"):
            raise MetisError("the folder is not shared")
        return 1

    with monkeypatch.context() as patch:
        patch.setattr(launch, "_run", run)
        assert ended(BALANCE, more=["steps=6"])[0] == 1
    assert capsys.readouterr().err.splitlines()[-1] == "metis: the folder is not shared"
    monkeypatch.setattr(launch, "_run", lambda *_: 1)
    assert ended(BALANCE, more=["steps=6"])[0] == 1
    assert "not shared" not in capsys.readouterr().err


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
