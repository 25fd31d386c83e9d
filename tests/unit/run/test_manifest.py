"""Changes that a resumed run may make are written down; all others are refused."""

import json
import os
from dataclasses import fields
from pathlib import Path

import pytest

from metis import config
from metis.cli import main
from metis.engines import ENGINES
from metis.engines.simulated import SimulatedEngine
from metis.run import manifest
from metis.run.folder import RunFolder, read_log
from metis.settings.training import RunSettings

SHORT = ["engine=simulated", "engine.prompts=40", "batch=4", "group=2", "evaluate=2", "steps=4"]


def train(*settings):
    return main(["train", *SHORT, *settings, "--out", "run"])


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def document(run):
    return json.loads((run / "config.json").read_text())


@pytest.mark.parametrize("kind", [RunSettings, *(entry.settings for entry in ENGINES.values())])
def test_what_may_change_is_a_setting(kind):
    assert set(getattr(kind, "MAY_CHANGE", ())) <= {knob.name for knob in fields(kind)}


def test_a_finished_run_can_be_extended(run, capsys):
    assert train() == 0
    before = (run / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert train("steps=6") == 0
    assert "step 4: from here on steps = 6 (was 4)" in capsys.readouterr().out
    assert (run / "metrics.jsonl").read_bytes().startswith(before)
    assert [row["step"] for row in read_log(run, "metrics")] == [0, 1, 2, 3, 4, 5, 6]
    assert document(run)["steps"] == 6
    assert document(run)["changes"] == [{"step": 4, "key": "steps", "old": 4, "new": 6}]
    assert train("steps=6") == 0
    assert "this run is complete" in capsys.readouterr().out


def test_every_change_is_kept(run):
    assert train() == 0
    assert train("steps=5", "checkpoints.keep=1", "evaluate=1") == 0
    assert train("steps=6", "tokens=100000000", "checkpoints.keep=1", "evaluate=1") == 0
    kept = [(change["step"], change["key"], change["new"]) for change in document(run)["changes"]]
    assert kept[:3] == [(4, "steps", 5), (4, "evaluate", 1), (4, "checkpoints.keep", 1)]
    assert kept[3:] == [(5, "steps", 6), (5, "tokens", 100000000)]
    assert read_log(run, "metrics")[-1]["step"] == 6


def test_a_smaller_budget_ends_a_run_that_is_past_it(run, capsys):
    assert train() == 0
    assert train("steps=2") == 0
    said = capsys.readouterr().out
    assert "this run is at step 4, past steps = 2" in said and "complete" not in said.split(";")[0]
    assert document(run)["steps"] == 4 and "changes" not in document(run)


@pytest.mark.parametrize("budget", ["tokens=1", "seconds=0.000001"])
def test_other_budgets_are_complete_too(run, monkeypatch, capsys, budget):
    assert train("steps=0", budget) == 0
    monkeypatch.setattr(SimulatedEngine, "load", None)
    capsys.readouterr()
    assert train("steps=0", budget) == 0
    assert "this run is complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    "setting", ["seed=1", "engine.noise=0.25", "curriculum.explore=0.5", "batch=5"]
)
def test_what_makes_the_run_is_refused_also_beside_what_may_change(run, capsys, setting):
    assert train() == 0
    before = (run / "config.json").read_bytes()
    capsys.readouterr()
    assert train("steps=6", setting) == 2
    assert setting.partition("=")[0] in capsys.readouterr().err
    assert (run / "config.json").read_bytes() == before


def test_killed_amid_a_change_the_folder_is_as_before(run, monkeypatch):
    assert train() == 0
    before = (run / "config.json").read_bytes()
    replace = Path.replace

    def die(self, target):
        if Path(target).name == "config.json":
            os.link(self, self.with_name(".left.draft"))
            raise ZeroDivisionError
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", die)
        with pytest.raises(ZeroDivisionError):
            train("steps=6")
    assert (run / "config.json").read_bytes() == before
    assert train("steps=6") == 0
    assert len(document(run)["changes"]) == 1 and not list(run.glob(".*.draft"))


def test_the_config_of_a_changed_run_is_a_recipe(run, tmp_path):
    assert train() == 0 and train("steps=6") == 0
    assert main(["train", "run/config.json", "--out", "again"]) == 0
    assert document(tmp_path / "again")["steps"] == 6
    assert "changes" not in document(tmp_path / "again")


def test_a_changed_folder_opens_with_the_settings_it_holds(run):
    assert train() == 0 and train("steps=6") == 0
    with RunFolder.open(run, document(run)) as folder:
        assert folder.changes == []


def test_the_report_says_what_was_changed(run):
    assert train() == 0 and train("steps=6", "evaluate=1") == 0 and train("steps=8") == 0
    assert main(["report", "run"]) == 0
    page = (run / "report.html").read_text()
    assert "steps = 6 (was 4), evaluate = 1 (was 2) from step 4; " in page
    assert "steps = 8 (was 6), evaluate = 2 (was 1) from step 6." in page


def test_the_engines_say_what_may_change():
    local = config.load_config(None, []).may_change
    assert {"steps", "checkpoints", "engine.tokens", "engine.learning_rate"} <= set(local)
    assert "engine.model" not in local and "batch" not in local
    verl = config.load_config(None, ["engine=verl"]).may_change
    assert "engine.tokens" in verl and "engine.learning_rate" not in verl


def test_a_run_goes_on_with_settings_that_it_did_not_know(run, capsys):
    assert train() == 0
    older = document(run)
    del older["benchmark_limit"], older["engine"]["heldout"]
    (run / "config.json").write_text(json.dumps(older))
    assert train("steps=5") == 0
    assert document(run)["benchmark_limit"] == 0
    assert [change["key"] for change in document(run)["changes"]] == ["steps"]
    (run / "config.json").write_text("{}")
    capsys.readouterr()
    assert train("steps=6") != 0
    assert "holds a run with" in capsys.readouterr().err


def test_a_run_with_a_setting_that_is_gone_is_read_but_not_resumed(run, capsys):
    assert train() == 0
    older = document(run)
    older["curriculum"]["examples"] = 3
    (run / "config.json").write_text(json.dumps(older))
    capsys.readouterr()
    assert train("steps=5") == 2
    said = capsys.readouterr().err
    assert "curriculum.examples" in said and "cannot be resumed" in said
    assert document(run) == older
    assert main(["inspect", "run"]) == 0


def test_older_runs_have_loggers_under_their_former_name(tmp_path):
    before = {"schema": 1, "steps": 4, "sinks": ["wandb"]}
    manifest.create(tmp_path, before)
    now = {"schema": 1, "steps": 4, "loggers": ["wandb"]}
    assert manifest.settings_of(before) == {"steps": 4, "loggers": ["wandb"]}
    assert manifest.changes(tmp_path, now, (), 2) == []
    [change] = manifest.changes(tmp_path, {**now, "loggers": []}, ("loggers",), 2)
    assert (change["key"], change["old"], change["new"]) == ("loggers", ["wandb"], [])


@pytest.mark.parametrize("answers", [None, 3])
def test_older_runs_resume_and_are_trained_again_without_settings_that_are_gone(run, answers):
    assert train() == 0
    old = {**document(run), "answers": answers}
    (run / "config.json").write_text(json.dumps(old))
    assert train("steps=5") == 0
    assert "answers" not in document(run)
    (run / "config.json").write_text(json.dumps(old))
    assert main(["train", "run/config.json", "--out", "again"]) == 0
    assert "answers" not in document(run.with_name("again"))
