"""The logs and checkpoints of a run on verl, and resuming from them."""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import verl
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import PPOTrainerSync

from metis import MetisError, Prompt
from metis.core import Transcript, state
from metis.engines.verl.trainer.journal import Journal
from metis.engines.verl.trainer.trainer import FRACTIONS, MetisTrainer, RewardCheck
from metis.engines.verl.workers.update import Update
from metis.errors import NON_FINITE_LIMIT
from metis.run import folder as run_folder
from metis.run.budget import Account, Budget
from metis.run.metrics import metric_sections
from metis.run.transcripts import members

SETTINGS = {"engine": {"name": "verl", "learning_rate": 1e-6}, "seconds": 5, "seed": 0}


@pytest.fixture
def opened():
    """Opens journals, and closes them in the end."""
    with ExitStack() as stack:

        def open(folder, step=0, **changed):
            journal = Journal(folder, SETTINGS | changed, step)
            stack.callback(journal.folder.close)
            return journal

        yield open


def filled(folder, steps=3):
    journal = Journal(folder, SETTINGS, 0)
    with journal.folder:
        journal.resume(0)
        for step in range(1, steps + 1):
            journal.test(step, {"data:1": 0.5})
            journal.note(step, {"metis/batch/reward": float(step)})
            journal.time(step, {"gen": 1.0}, float(step))
    return folder


def test_the_metrics_explained_as_verl_s_own_are_its():
    sources = [
        path.read_text("utf-8")
        for part in ("trainer/ppo", "utils", "workers")
        for path in (Path(verl.__file__).parent / part).rglob("*.py")
    ]
    entries = [entry.name for section in metric_sections() for entry in section.metrics]
    theirs = {name for name in entries if name.startswith("actor/")} - {"actor/judge_loss"}
    assert len(theirs) > 10
    for name in theirs:
        leaf = name.removeprefix("actor/")
        assert any(re.search(rf"""["'/]{leaf}["']""", text) for text in sources), name


def test_what_came_after_a_checkpoint_is_forgotten(tmp_path, opened):
    journal = opened(filled(tmp_path), step=2)
    assert journal.resume(2)
    for log in ("metrics", "timings", "evals"):
        assert [row["step"] for row in run_folder.read_log(tmp_path, log)] == [1, 2]


def test_the_judge_is_charged_its_share_of_the_update(tmp_path, opened):
    journal = opened(tmp_path)
    journal.resume(0)
    seconds = {"judge": 1.0, "gen": 5.0, "old_log_prob": 2.0, "update_actor": 6.0, "step": 20.0}
    journal.time(1, seconds, 15.0, judged=0.25)
    journal.time(2, {"gen": 5.0, "update_actor": 6.0}, 30.0)
    first, second = run_folder.read_log(tmp_path, "timings")
    assert (first["judge"], first["rollout"], first["update"]) == (3.0, 5.0, 6.0)
    assert second == {"schema": 1, "step": 2, "rollout": 5.0, "update": 6.0, "elapsed": 30.0}


def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path, opened):
    filled(tmp_path)
    with (tmp_path / "timings.jsonl").open("ab") as file:
        file.write(b'{"schema": 1, "st')
    journal = opened(tmp_path, step=3)
    assert journal.resume(3)
    journal.time(4, {"gen": 1.0}, 4.0)
    assert [row["step"] for row in run_folder.read_log(tmp_path, "timings")] == [1, 2, 3, 4]


def test_transcripts_are_cut_with_the_logs(tmp_path, opened):
    said = [Transcript([], [{"role": "assistant", "content": "four"}], 1.0)]
    with (journal := Journal(filled(tmp_path, steps=2), SETTINGS, 2)).folder:
        for step in (1, 2, 3):
            journal.recorder.add("train", step, Prompt("data:1", ""), said)
            journal.recorder.add("eval", step, Prompt("data:2", ""), said)
    journal = opened(tmp_path, step=3)
    assert not journal.resume(3), "its validation is repeated"
    steps = [(m.place.kind, m.head["step"]) for m in members(tmp_path)]
    assert steps == [("train", 1), ("train", 2), ("train", 3), ("eval", 1), ("eval", 2)]
    assert journal.resume(2)
    assert len(list(members(tmp_path))) == 4
    journal.resume(0)
    assert not list(members(tmp_path))


def test_transcripts_are_kept_as_the_settings_say(tmp_path, opened):
    journal = opened(tmp_path, transcripts="sample", transcripts_gb=1e-9)
    said = [Transcript([], [{"role": "assistant", "content": "four"}], 1.0)] * 2
    journal.recorder.add("train", 1, Prompt("data:1", ""), said)
    assert [len(member.rows) for member in members(tmp_path)] == [1]
    journal.thin(51)
    assert not list(members(tmp_path))
    [*_, notice] = run_folder.read_log(tmp_path, "notices")
    assert "the transcripts up to step 49 were deleted" in notice["text"]


def test_a_test_that_was_cut_short_leaves_no_answers(tmp_path, opened):
    filled(tmp_path, steps=2)
    journal = opened(tmp_path, step=3)
    journal.test(3, {"data:1": 0.5})
    assert not journal.resume(3)
    assert [row["step"] for row in run_folder.read_log(tmp_path, "evals")] == [1, 2]


def test_a_run_goes_on_with_its_own_settings(tmp_path, opened, capsys):
    filled(tmp_path)
    with pytest.raises(MetisError, match=r"engine\.learning_rate = 1e-06, not 1e-05"):
        opened(tmp_path, step=3, engine={"name": "verl", "learning_rate": 1e-5})
    opened(tmp_path, step=3, seconds=9)
    assert "from here on seconds = 9 (was 5)" in capsys.readouterr().out
    assert json.loads((tmp_path / "config.json").read_text())["changes"][0]["step"] == 3


def test_a_run_that_starts_over_has_new_settings(tmp_path, opened, capsys):
    journal = opened(filled(tmp_path), seed=7)
    assert not journal.resume(0)
    assert "begin anew" in capsys.readouterr().out
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 7
    assert run_folder.read_log(tmp_path, "metrics") == []


def test_the_settings_of_a_recipe_stay(tmp_path, opened):
    assert not opened(tmp_path / "native").of_recipe
    recipe = {"task": {"name": "arithmetic"}, "schema": 1}
    run_folder.RunFolder.open(tmp_path / "made", recipe).close()
    assert opened(tmp_path / "made").of_recipe
    assert json.loads((tmp_path / "made" / "config.json").read_text()) == recipe


@pytest.fixture
def resumed(tmp_path, opened, monkeypatch):
    """A trainer that verl has brought back to step 3; steps as `logged` are in the logs."""

    def load(budget, logged=3, test_every=3, more=(), marked=3, loaded=3, **settings):
        run = tmp_path / "verl"
        folder = run / "global_step_3"
        folder.mkdir(parents=True)
        account = Account(Budget(), 3, elapsed=7.0)
        saved = {"curriculum": {}, "pool": {}, "metrics": {"metis/batch/reward": 3.0}, **dict(more)}
        state.save_state(folder / "metis.state", saved | account.state_dict())
        (run / "latest_checkpointed_iteration.txt").write_text(str(marked))
        trainer = MetisTrainer.__new__(MetisTrainer)
        trainer.config = OmegaConf.create(
            {
                "trainer": {
                    "resume_mode": "auto",
                    "resume_from_path": None,
                    "default_local_dir": str(run),
                    "val_before_train": True,
                    **settings,
                }
            }
        )
        trainer.total_training_steps, trainer.saved = 99, 0
        trainer.actor_rollout_wg, trainer.use_critic = SimpleNamespace(world_size=1), False
        trainer.update = Update(trainer.config)
        trainer.test_every = test_every
        trainer.account = Account(budget)
        trainer.curriculum = trainer.pool = type(
            "Nothing", (), {"load_state_dict": lambda *_: None}
        )()
        filled(tmp_path / "logs", steps=logged)
        trainer.journal = opened(tmp_path / "logs", step=3)
        monkeypatch.setattr(
            PPOTrainerSync, "_load_checkpoint", lambda self: setattr(self, "global_steps", loaded)
        )
        trainer._load_checkpoint()
        return trainer

    return load


def test_a_budget_that_is_spent_allows_no_further_step(resumed):
    trainer = resumed(Budget(seconds=7.0))
    assert trainer.total_training_steps == 3
    assert not trainer.config.trainer.val_before_train


def test_a_budget_that_is_not_spent_goes_on(resumed, tmp_path, monkeypatch):
    trainer = resumed(Budget(seconds=7.5), logged=2)
    assert trainer.total_training_steps == 99
    assert trainer.config.trainer.val_before_train, "the test was cut short"
    assert trainer.saved == 3
    trainer.batch, trainer.settings = None, {"best": False}
    trainer._save_state = lambda: None
    monkeypatch.setattr(PPOTrainerSync, "_validate", lambda self: {"metis/eval/accuracy": 0.5})
    trainer._validate()
    assert run_folder.read_log(tmp_path / "logs", "metrics")[-1] == {
        **{"schema": 1, "step": 3, "batch/reward": 3.0, "eval/accuracy": 0.5}
    }, "what the step logged was in its checkpoint"


def test_a_test_that_was_cut_short_is_made_again_where_no_test_comes_first(resumed):
    trainer = resumed(Budget(seconds=7.5), logged=2, val_before_train=False)
    assert trainer.config.trainer.val_before_train


def test_a_step_that_was_not_to_be_tested_is_only_written_down(resumed, tmp_path):
    trainer = resumed(Budget(seconds=7.5), logged=2, test_every=2)
    assert not trainer.config.trainer.val_before_train
    assert run_folder.read_log(tmp_path / "logs", "metrics")[-1] == {
        "schema": 1,
        "step": 3,
        "batch/reward": 3.0,
    }


def test_a_checkpoint_is_tested_on_demand_and_the_logs_stay(resumed, tmp_path):
    trainer = resumed(Budget(seconds=9.0), logged=5, val_only=True)
    assert trainer.config.trainer.val_before_train
    assert trainer.tested
    assert [row["step"] for row in run_folder.read_log(tmp_path / "logs", "metrics")] == [
        1,
        2,
        3,
        4,
        5,
    ]


@pytest.mark.parametrize(
    ("settings", "marked"),
    [
        ({}, "3"),
        ({"val_only": True}, "9"),
        ({"default_local_dir": "elsewhere"}, "9"),
    ],
)
def test_a_run_that_goes_on_from_an_earlier_checkpoint_forgets_the_later_ones(
    resumed, tmp_path, settings, marked
):
    """Only a run that goes on from a checkpoint of its own; one of another run is only read."""
    path = str(tmp_path / "verl" / "global_step_3")
    resumed(Budget(), marked=9, resume_mode="resume_path", resume_from_path=path, **settings)
    assert (tmp_path / "verl" / "latest_checkpointed_iteration.txt").read_text() == marked


@pytest.mark.parametrize(
    ("settings", "marked", "steps"),
    [({}, None, []), ({"val_only": True}, "9", [1, 2, 3, 4, 5])],
)
def test_a_fresh_start_in_a_used_folder_forgets_the_marker(
    resumed, tmp_path, settings, marked, steps
):
    """One that is only tested keeps it, and the logs."""
    resumed(Budget(), logged=5, marked=9, loaded=0, resume_mode="disable", **settings)
    marker = tmp_path / "verl" / "latest_checkpointed_iteration.txt"
    assert (marker.read_text() if marker.exists() else None) == marked
    assert [row["step"] for row in run_folder.read_log(tmp_path / "logs", "metrics")] == steps


def test_the_best_checkpoint_of_an_abandoned_attempt_is_told_of(resumed, tmp_path, capsys):
    best = tmp_path / "verl" / "best"
    best.mkdir(parents=True)
    state.save_state(best / "metis.state", Account(Budget(), 9, best=(9, 0.5)).state_dict())
    resumed(Budget())
    assert "renamed to best-of-step-9" in capsys.readouterr().out
    assert best.with_name("best-of-step-9").is_dir() and not best.exists()


def test_the_bound_s_running_mean_is_restored_where_a_checkpoint_has_one(resumed):
    trainer = resumed(Budget(), more={"bound": {"mean": 0.125}})
    assert trainer.update.bound.mean == 0.125


def test_a_checkpoint_from_before_the_bound_is_loaded(resumed):
    assert resumed(Budget()).update.bound.mean is None


def test_fractions_among_binary_rewards_are_told_once():
    whole, half = (SimpleNamespace(groups=[SimpleNamespace(rewards=r)]) for r in ((0, 1), (0, 0.5)))
    check = RewardCheck("binary")
    assert [check.notices(batch) for batch in (whole, half, half)] == [[], [FRACTIONS], []]
    assert RewardCheck("continuous").notices(half) == []


def test_gradients_that_stay_without_number_end_a_run():
    update = Update(OmegaConf.create({"actor_rollout_ref": {"actor": {"optim": {"lr": 0.5}}}}))
    metrics = {}
    for _ in range(NON_FINITE_LIMIT - 1):
        update.watch(np.array([1.0, np.nan]), metrics)
        assert metrics == {"metis/update/non_finite": 1}
    update.watch(np.array([1.0, 2.0]), metrics)
    assert metrics == {"metis/update/non_finite": 0}
    for _ in range(NON_FINITE_LIMIT - 1):
        update.watch(np.array([np.inf]), metrics)
    with pytest.raises(MetisError, match=r"optim\.lr = 0\.5: the gradient was not finite in 3"):
        update.watch(np.array([np.nan]), metrics)
