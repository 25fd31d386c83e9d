"""`metis compare --suite` with a tiny model: every run is trained, then evaluated on benchmarks."""

import json
import shutil

import pytest

import made_up_problems
from metis.cli import main


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    """Two variants of one run each, evaluated on two files; the command, and the folder."""
    folder = tmp_path_factory.mktemp("suite")
    for name in ("easy", "hard"):
        made_up_problems.write(folder / f"{name}.jsonl")
    settings = [
        f"engine.model={tiny}",
        "task=arithmetic",
        "task.heldout=4",
        "task.prompts=20",
        "steps=2",
        "batch=2",
        "group=2",
        "evaluate=1",
        "engine.max_tokens=6",
        "engine.device=cpu",
    ]
    suite = ["--suite", str(folder / "easy.jsonl"), str(folder / "hard.jsonl")]
    variants = ["--curricula", "uniform,mopps", "--seeds", "0", "--jobs", "2"]
    out = folder / "cmp"
    command = ["compare", *settings, *variants, *suite, "--samples", "2", "--discard"]
    assert main([*command, "--out", str(out)]) == 0
    return command, out


def test_runs_are_evaluated_before_their_checkpoints_are_dropped(whole):
    _, out = whole
    assert not list(out.glob("*/checkpoints"))
    for run in ("uniform-0", "mopps-0"):
        results = json.loads((out / "evals" / run / "results.json").read_text())
        assert list(results["benchmarks"]) == ["easy", "hard"] and results["samples"] == 2
    table = (out / "comparison.md").read_text()
    assert "## mean@2 after training, in percent" in table
    assert "| variant | runs | easy " in table and "| Avg." in table
    assert "mean@2 after training" in (out / "report.html").read_text()


def test_what_is_evaluated_is_not_evaluated_again(whole):
    command, out = whole
    before = {path: path.stat().st_mtime_ns for path in out.glob("evals/*/answers.jsonl")}
    assert len(before) == 2 and main([*command, "--out", str(out)]) == 0
    assert main(["compare", "--out", str(out)]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_another_suite_is_refused_and_a_run_without_its_evaluation_is_named(
    whole, tmp_path, capsys
):
    _, first = whole
    out = tmp_path / "cmp"
    shutil.copytree(first, out)
    assert main(["compare", "--suite", "math500", "--out", str(out)]) == 2
    assert "--samples 2" in capsys.readouterr().err
    shutil.rmtree(out / "evals/mopps-0")
    assert main(["report", str(out)]) == 0
    assert "- mopps-0 not evaluated" in (out / "comparison.md").read_text()
    assert main(["compare", "--out", str(out)]) == 1  # its checkpoint was dropped
    assert "- mopps-0 failed: " in (out / "comparison.md").read_text()


def test_a_run_that_is_trained_again_is_evaluated_again(whole, tmp_path):
    command, first = whole
    out = tmp_path / "cmp"
    shutil.copytree(first, out)
    shutil.rmtree(out / "mopps-0")
    plan = json.loads((out / "compare.json").read_text())
    plan["finished"].remove("mopps-0")
    (out / "compare.json").write_text(json.dumps(plan))
    kept, stale = (out / "evals" / run / "answers.jsonl" for run in ("uniform-0", "mopps-0"))
    times = [path.stat().st_mtime_ns for path in (kept, stale)]
    assert main([*command, "--out", str(out)]) == 0
    assert kept.stat().st_mtime_ns == times[0] and stale.stat().st_mtime_ns > times[1]
    assert (out / "comparison.md").read_bytes() == (first / "comparison.md").read_bytes()
