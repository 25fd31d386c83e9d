"""Notices of runs: rewards that teach nothing, and answers that are cut off."""

from collections import Counter
from pathlib import Path

import pytest

from metis.cli import main
from metis.run.folder import read_log
from metis.run.notices import STEPS, Standstill, Truncations, longest_standstill

FLAT = {"rollout/generated": 8.0, "rollout/tokens": 80.0, "rollout/wasted": 80.0}
FLAT |= {"batch/informative": 0.0, "batch/reward": 0.0}
VARIED = {**FLAT, "rollout/wasted": 70.0, "batch/informative": 0.125}
DISCARDED = {**FLAT, "rollout/wasted": 70.0}
BUFFERED = {**FLAT, "batch/informative": 1.0}
READING = {"rollout/generated": 0.0, "batch/groups": 0.0}


def told(*metrics):
    watch = Standstill()
    return [n for step, row in enumerate(metrics, 1) for n in watch.notices(step, row, Path("run"))]


def test_the_step_that_completes_the_stretch_is_told_of_once():
    [notice] = told(*[FLAT] * (3 * STEPS))
    assert f"{STEPS} steps" in notice and f"{8 * STEPS} rollouts" in notice
    assert f"metis inspect run --step {STEPS}" in notice


@pytest.mark.parametrize("row", [VARIED, DISCARDED, BUFFERED])
def test_a_group_that_varies_ends_a_stretch_whatever_becomes_of_it(row):
    assert told(*[FLAT] * (STEPS - 1), row, *[FLAT] * (STEPS - 1)) == []


def test_steps_without_rollouts_count_neither_way():
    assert told(*[READING] * (2 * STEPS)) == []
    assert len(told(*[FLAT, READING] * STEPS)) == 1


def rows(*metrics):
    return [{"step": 0}, *({"step": n, **row} for n, row in enumerate(metrics, 1))]


def test_the_longest_stretch_of_a_log_is_found():
    found = longest_standstill(rows(*[FLAT] * STEPS, VARIED, *[FLAT] * (STEPS + 2), VARIED))
    assert found and (found.steps, found.last) == (STEPS + 2, 2 * STEPS + 3)
    assert longest_standstill(rows(*[FLAT] * (STEPS - 1), VARIED)) is None
    assert longest_standstill(rows()) is None


def test_a_short_run_in_which_nothing_varied_is_one():
    found = longest_standstill(rows(FLAT, FLAT))
    assert found and found.steps == 2


def test_a_run_says_so_while_it_runs_in_its_summary_and_in_its_report(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["engine=simulated", "engine.hardness=60", f"steps={STEPS + 2}", "curriculum=uniform"]
    assert main(["train", *words, "batch=4", "--out", str(run)]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "no gradient" in line]
    assert f"no group had any reward variance for {STEPS} steps" in said[0]
    assert len(said) == 2 and "every reward is 0" in said[1].lower()
    [notice] = read_log(run, "notices")
    assert notice["step"] == STEPS and notice["text"] in said[0]
    assert main(["report", str(run)]) == 0
    assert "no gradient" in (run / "report.html").read_text("utf-8")


def test_a_resumed_run_counts_the_steps_before(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["engine=simulated", "engine.hardness=60", "curriculum=uniform", "batch=4"]
    assert main(["train", *words, f"steps={STEPS - 3}", "--out", str(run)]) == 0
    assert not read_log(run, "notices")
    assert main(["train", *words, f"steps={STEPS}", "--out", str(run)]) == 0
    assert [row["step"] for row in read_log(run, "notices")] == [STEPS]


def test_a_run_that_learns_says_nothing(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["engine=simulated", f"steps={STEPS + 2}", "curriculum=uniform", "batch=4"]
    assert main(["train", *words, "--out", str(run)]) == 0
    assert main(["report", str(run)]) == 0
    assert "no group" not in capsys.readouterr().out
    assert "no weights" not in (run / "report.html").read_text("utf-8")


def counts(cut, generated=8):
    return Counter({"rollout/cut_off": cut, "rollout/generated": generated})


def test_the_first_step_with_most_answers_cut_off_is_told_of_once():
    truncations = Truncations("engine.max_tokens = 64")
    assert truncations.notices(counts(4)) == []
    [notice] = truncations.notices(counts(6))
    assert notice.startswith("75% of the answers (6 of 8) were truncated at engine.max_tokens = ")
    assert truncations.notices(counts(8)) == []


@pytest.mark.parametrize("generated", [0, 8])
def test_half_of_them_or_none_are_not(generated):
    assert Truncations("a limit").notices(counts(generated // 2, generated)) == []
