"""An engine that brings its own trainer stands behind the same commands and calls."""

from types import SimpleNamespace

import pytest

import metis
from metis import MetisError
from metis.cli import main
from metis.comparisons.ending import settled
from metis.comparisons.plan import ComparisonPlan
from metis.engines import ENGINES
from metis.loop import INTERRUPTED, conduct, finished

WORDS = ["engine=simulated", "curriculum=uniform", "batch=4", "group=4", "steps=2"]
CALL = {"engine": "simulated", "curriculum": "uniform", "batch": 4, "group": 4, "steps": 2}


@pytest.fixture
def brought(monkeypatch):
    """A trainer whose command says `their trainer`, and that ends with `code`."""
    made = SimpleNamespace(code=0, done=False)
    made.foreseen = lambda config, out: iter(["a remark"])
    made.command = lambda config, out: "their trainer"
    made.finished = lambda out, budget: made.done
    made.conduct = lambda config, out, view, on_step, say: made.code
    entry = ENGINES["simulated"]._replace(trainer=lambda: made)
    monkeypatch.setitem(ENGINES, "simulated", entry)
    return made


def test_a_dry_run_prints_its_command_alone(brought, capsys):
    assert main(["train", *WORDS, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out == "their trainer\n"
    assert "metis: a remark" in said.err and "steps = 2" in said.err


def test_a_command_that_cannot_be_printed_leaves_the_settings(brought, capsys):
    def refuse(config, out):
        raise MetisError("there is no data")

    brought.command = refuse
    assert main(["train", *WORDS, "--dry-run"]) == 2
    said = capsys.readouterr()
    assert not said.out and "steps = 2" in said.err
    assert said.err.endswith("metis: there is no data\n")


@pytest.mark.parametrize("code", [1, INTERRUPTED, 143])
def test_its_exit_code_is_that_of_the_command(brought, code, tmp_path, capsys):
    brought.code = code
    assert main(["train", *WORDS, "--out", str(tmp_path / "run")]) == code


def test_a_call_tells_an_end_from_an_interruption_and_a_failure(brought, tmp_path):
    assert metis.train(out=tmp_path, show=False, **CALL).finished
    brought.code = INTERRUPTED
    assert not metis.train(out=tmp_path, show=False, **CALL).finished
    brought.code = 3
    with pytest.raises(MetisError, match="ended with exit code 3"):
        metis.train(out=tmp_path, show=False, **CALL)


def test_it_says_itself_which_runs_of_a_comparison_are_finished(tmp_path, brought):
    plan, run = ComparisonPlan("", (), (), (0,)), tmp_path / "run"
    brought.conduct = conduct
    assert main(["train", *WORDS, "--out", str(run)]) == 0
    assert not settled(plan, run)
    brought.done = True
    assert settled(plan, run)
    brought.finished = finished
    assert settled(plan, run)
