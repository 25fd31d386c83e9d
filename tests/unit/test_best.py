"""The best checkpoint: kept whole beside the latest ones, and remembered by a resumed run."""

import os

import pytest

from metis.cli import main
from metis.core import state
from metis.engines.simulated import SimulatedEngine
from metis.run.folder import LOGS, RunFolder, read_log

SHORT = ["engine=simulated", "engine.prompts=40", "batch=4", "group=2", "evaluate=1"]
SETTINGS = [*SHORT, "steps=6", "checkpoints.every=3", "checkpoints.keep=1", "curriculum=uniform"]


def train(*settings):
    return main(["train", *SETTINGS, *settings, "--out", "run"])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def saves(monkeypatch):
    """The steps whose weights were written."""
    steps, save = [], SimulatedEngine.save

    def note(self, folder):
        steps.append(self.version)
        save(self, folder)

    monkeypatch.setattr(SimulatedEngine, "save", note)
    return steps


def accuracies(monkeypatch, *values):
    """Make the engine test like this at steps 0, 1, 2 ..."""
    monkeypatch.setattr(
        SimulatedEngine, "evaluate", lambda self, *_, **__: [("p", values[self.version])]
    )


def kept(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def best_step(run):
    return state.load_state(run / "checkpoints/best/run.state")["step"]


def test_the_first_of_the_best_survives_the_pruning(monkeypatch, run, saves):
    accuracies(monkeypatch, 0.1, 0.2, 0.5, 0.3, 0.5, 0.4, 0.2)
    assert train() == 0
    assert kept(run) == ["best", "step-000006"]
    assert best_step(run) == 2
    assert saves == [1, 2, 3, 6]


def test_it_loads_like_any_checkpoint(monkeypatch, run):
    accuracies(monkeypatch, 0.1, 0.2, 0.5, 0.3, 0.5, 0.4, 0.2)
    assert train() == 0
    whole = {path.name for path in (run / "checkpoints/step-000006").iterdir()}
    assert {path.name for path in (run / "checkpoints/best").iterdir()} == whole
    assert state.load_state(run / "checkpoints/best/engine.state")["policy"] == 2
    assert state.load_state(run / "checkpoints/step-000006/run.state")["best"] == (2, 0.5)


def test_a_run_that_never_beats_its_start_has_no_best(monkeypatch, run, saves):
    accuracies(monkeypatch, 0.5, 0.4, 0.5, 0.3, 0.2, 0.1, 0.5)
    assert train() == 0
    assert kept(run) == ["step-000006"]
    assert saves == [3, 6]


def test_a_regular_checkpoint_that_is_the_best_is_saved_once_and_shared(monkeypatch, run, saves):
    accuracies(monkeypatch, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2)
    assert train() == 0
    assert saves == [3, 6]
    for path in (run / "checkpoints/best").iterdir():
        assert path.samefile(run / "checkpoints/step-000006" / path.name)


def test_it_is_copied_where_files_cannot_be_shared(monkeypatch, run):
    def refuse(*_, **__):
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    accuracies(monkeypatch, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2)
    assert train() == 0
    for path in (run / "checkpoints/best").iterdir():
        other = run / "checkpoints/step-000006" / path.name
        assert path.read_bytes() == other.read_bytes() and not path.samefile(other)


def crash(monkeypatch, after):
    """End a run in the middle of the step that follows `after`."""
    update = SimulatedEngine.update

    def die(self, batch):
        if self.version == after:
            raise ZeroDivisionError
        return update(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedEngine, "update", die)
        with pytest.raises(ZeroDivisionError):
            train()


def test_a_resumed_run_remembers_what_it_has_to_beat(monkeypatch, run):
    accuracies(monkeypatch, 0.1, 0.2, 0.5, 0.3, 0.5, 0.4, 0.2)
    crash(monkeypatch, after=4)
    assert kept(run) == ["best", "step-000003"]
    assert train() == 0
    assert best_step(run) == 2


@pytest.mark.parametrize("moment", ["copying", "swapping", "done"])
def test_killed_while_it_is_kept_it_is_whole_after_the_resume(monkeypatch, run, moment):
    accuracies(monkeypatch, 0.1, 0.2, 0.5, 0.3, 0.1, 0.4, 0.2)
    keep = RunFolder.keep_best

    def die(self, step):
        if step == 2:
            folder = self.path / "checkpoints"
            if moment == "copying":
                (folder / ".best.draft").mkdir()
            elif moment == "swapping":
                (folder / "best").rename(folder / ".best-old.draft")
            else:
                keep(self, step)
            raise ZeroDivisionError
        keep(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "keep_best", die)
        with pytest.raises(ZeroDivisionError):
            train()
    assert train() == 0
    assert kept(run) == ["best", "step-000006"]
    assert best_step(run) == 2
    assert [row["step"] for row in read_log(run, "metrics")] == list(range(7))


def test_a_new_best_that_cannot_be_written_leaves_the_old_one(capsys, monkeypatch, run):
    accuracies(monkeypatch, 0.1, 0.2, 0.5, 0.3, 0.1, 0.4, 0.2)
    link, calls = os.link, []

    def full(source, target):
        calls.append(target)
        if "step-000002" in source:
            raise OSError(28, "No space left on device")
        link(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        patched.setattr("shutil.copy2", full)
        assert train() == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "cannot be written" in error and "No space left on device" in error
    assert kept(run) == ["best", "step-000002"]
    assert best_step(run) == 1
    assert train() == 0
    assert best_step(run) == 2


def test_logs_do_not_depend_on_when_a_run_was_stopped(monkeypatch, run, tmp_path):
    assert train() == 0
    straight = {log: (run / f"{log}.jsonl").read_bytes() for log in LOGS}
    run.rename(tmp_path / "straight")
    crash(monkeypatch, after=1)
    crash(monkeypatch, after=4)
    assert train() == 0
    assert {log: (run / f"{log}.jsonl").read_bytes() for log in LOGS} == straight
