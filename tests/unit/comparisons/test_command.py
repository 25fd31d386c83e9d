"""`metis compare` from the command line: trained, stopped, continued, extended, tabulated."""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from metis.cli import main
from metis.run import folder as run_folder

SETTINGS = [
    "engine=simulated",
    "steps=12",
    "evaluate=3",
    "checkpoints.every=2",
    "batch=8",
    "group=4",
    "engine.prompts=300",
]
VARIANTS = ["--curricula", "uniform,metis", "--seeds", "0,1"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A comparison that was never stopped."""
    out = tmp_path_factory.mktemp("compare") / "whole"
    assert main(["compare", *SETTINGS, *VARIANTS, "--jobs", "2", "--out", str(out)]) == 0
    return out


def table(out):
    return (out / "comparison.md").read_text()


def cut(run, lines):
    """Leave so many lines of the log of a run."""
    log = run / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:lines]))


def forget(out, run):
    """Take a run from those that the plan calls finished."""
    plan = json.loads((out / "compare.json").read_text())
    plan["finished"].remove(run)
    (out / "compare.json").write_text(json.dumps(plan))


def test_a_comparison_has_a_run_for_every_variant_and_seed(whole):
    assert {path.parent.name for path in whole.glob("*/config.json")} == {
        f"{variant}-{seed}" for variant in ("uniform", "metis") for seed in (0, 1)
    }
    starts = {run_folder.read_log(run, "metrics")[0]["eval/accuracy"] for run in whole.glob("*-?")}
    assert len(starts) == 1, "every run is tested on the same prompts"
    text = table(whole)
    assert "**metis** needs" in text and "seconds are not compared" in text
    assert str(whole) not in text


def test_the_table_is_the_same_twice_and_can_be_had_again(whole, capsys):
    before = table(whole)
    (whole / "comparison.md").unlink()
    assert main(["compare", "--out", str(whole)]) == 0
    assert table(whole) == before and before in capsys.readouterr().out


@pytest.mark.parametrize("lines", [0, 4, 11])
def test_killed_at_any_moment_it_goes_on_and_says_the_same(whole, tmp_path, lines):
    """Killed when the second run has so many steps in its log."""
    out = tmp_path / "killed"
    shutil.copytree(whole, out)
    for run in ("metis-0", "metis-1"):
        shutil.rmtree(out / run)
    command = ["compare", *SETTINGS, *VARIANTS, "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "metis.cli", *command])
    log = out / "metis-0" / "metrics.jsonl"
    while not (log.exists() and log.read_bytes().count(b"\n") > lines):
        with suppress(subprocess.TimeoutExpired):
            assert process.wait(0.02) == 0
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(command) == 0
    assert table(out) == table(whole)


def test_finished_runs_need_no_checkpoints(whole, tmp_path):
    out = tmp_path / "discarded"
    command = ["compare", *SETTINGS, *VARIANTS, "--jobs", "2", "--discard", "--out", str(out)]
    assert main(command) == 0
    assert not list(out.glob("*/checkpoints"))
    logs = {path: path.read_bytes() for path in out.glob("*/metrics.jsonl")}
    assert len(logs) == 4 and main(command) == 0
    assert {path: path.read_bytes() for path in logs} == logs
    assert table(out) == table(whole)


def test_variants_and_seeds_are_added_to_those_that_are_there(whole, tmp_path):
    out = tmp_path / "more"
    shutil.copytree(whole, out)
    bold = ["--variant", "bold:curriculum=metis,curriculum.explore=0.5", "--seeds", "0"]
    assert main(["compare", *SETTINGS, *bold, "--out", str(out)]) == 0
    assert {"bold-0", "bold-1", "uniform-0"} <= {path.name for path in out.iterdir()}
    assert "**bold** needs" in table(out)


def test_a_failed_variant_is_reported_and_the_others_are_kept(tmp_path, capsys):
    out = tmp_path / "failed"
    out.mkdir()
    (out / "metis-0").mkdir()
    (out / "metis-0" / "config.json").write_text("{}")
    command = ["compare", *SETTINGS, "--curricula", "uniform,metis", "--seeds", "0"]
    assert main([*command, "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert "metis-0: failed:" in said and "uniform-0: step 12" in said
    assert "- metis-0 failed:" in table(out)


def test_a_run_that_is_killed_is_said_to_be(tmp_path, capsys):
    (tmp_path / "own.py").write_text(
        "import os, signal\n"
        "from metis.curricula.uniform import Uniform\n\n\n"
        "class Killed(Uniform):\n"
        "    def step(self, pool, progress):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    variants = ["--variant", f"killed:curriculum={tmp_path / 'own.py'}:Killed", "--seeds", "0"]
    assert main(["compare", *SETTINGS, *variants, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert "killed-0: failed: killed by SIGKILL (out of memory?)" in said.out
    assert "'killed' has no finished run (killed-0 failed: killed by SIGKILL" in said.err
    assert "see killed-0.log" in said.err


@pytest.mark.parametrize("edit", ["batch = 4", "steps = 24", "curriculum.explore = 0.5"])
def test_a_recipe_that_was_edited_meanwhile_is_refused(tmp_path, capsys, edit):
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out"
    recipe.write_text('engine = "simulated"\nsteps = 4\nevaluate = 2\nbatch = 8\n')
    command = ["compare", str(recipe), "--curricula", "metis", "--out", str(out), "--seeds"]
    assert main([*command, "0"]) == 0
    key = edit.partition(" ")[0]
    kept = [line for line in recipe.read_text().splitlines() if not line.startswith(key)]
    recipe.write_text("\n".join([*kept, edit]))
    assert main([*command, "0,1"]) == 2
    assert f"{key} = " in (said := capsys.readouterr().err) and "metis-0 was trained with" in said
    assert not (out / "metis-1").exists()


def test_settings_that_change_no_result_may_change_between_seeds(tmp_path):
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out"
    recipe.write_text('engine = "simulated"\nsteps = 4\nevaluate = 2\nbatch = 8\n')
    command = ["compare", str(recipe), "--curricula", "uniform", "--out", str(out), "--seeds"]
    assert main([*command, "0"]) == 0
    recipe.write_text(recipe.read_text() + "checkpoints.every = 1\n")
    assert main([*command, "0,1"]) == 0


def test_one_process_at_a_time_trains_a_comparison(whole, capsys):
    with run_folder.lock_folder(whole):
        assert main(["compare", "--seeds", "7", "--out", str(whole)]) == 2
        said = capsys.readouterr().err
        assert main(["compare", "--out", str(whole)]) == 0, "there is nothing to train"
    assert "in use by another process" in said
    assert said.endswith(f"; `metis report {whole}` shows what is there\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SETTINGS], "no variants to compare"),
        ([*SETTINGS, "--curricula", "uniform,metiz"], "variant 'metiz': curriculum = 'metiz'"),
        (
            [*SETTINGS, "--variant", "oracle:steps=4"],
            "variant 'oracle' would train with curriculum=",
        ),
        ([*SETTINGS, "stepz=1", "--curricula", "uniform"], "unknown key 'stepz'"),
        (["a.toml", "b.toml", "--curricula", "uniform"], "more than one recipe"),
        (["--jobs", "0", "--curricula", "uniform"], "use at least 1"),
        ([], "has no runs"),
        (["--seeds", "1"], "no variants to compare"),
        ([*SETTINGS, "--curricula", "uniform", "--baseline", "x"], "--baseline 'x': there are"),
        ([*SETTINGS, "--curricula", "uniform", "--suite", "math500"], "engine=simulated"),
        (["--curricula", "uniform", "--suite", "math501"], "--suite 'math501': there are"),
        (["--curricula", "uniform", "--suite", "heldout", "--samples", "0"], "use at least 1"),
        (["--suite", "math500"], "there is no plan"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_made(
    words, message, tmp_path, capsys
):
    out = tmp_path / "new"
    assert main(["compare", *words, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err and not out.exists()


def test_runs_share_their_prompts_unless_the_recipe_says_which(tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('engine = "simulated"\nsteps = 4\nevaluate = 2\nbatch = 4\ndata_seed = 7\n')
    words = ["compare", str(recipe), "--curricula", "uniform", "--seeds", "1"]
    assert main([*words, "--out", str(tmp_path / "cmp")]) == 0
    config = json.loads((tmp_path / "cmp/uniform-1/config.json").read_text())
    assert config["data_seed"] == 7


def test_what_is_not_finished_is_missing_in_the_table(whole, tmp_path, monkeypatch, capsys):
    from metis.comparisons.schedule import Schedule

    out = tmp_path / "stopped"
    shutil.copytree(whole, out)
    shutil.rmtree(out / "metis-1/checkpoints")  # as if it had been stopped before its end
    cut(out / "metis-1", 7)
    forget(out, "metis-1")

    def stop(schedule, runs):
        schedule.stopped = True

    monkeypatch.setattr(Schedule, "train", stop)
    assert main(["compare", "--out", str(out)]) == 130
    text = table(out)
    assert "- metis-1 not finished: its log ends at step 6 of 12\n" in text
    assert "| metis   | 0 " in text
    for run in ("uniform-0", "uniform-1"):
        shutil.rmtree(out / run)
    assert main(["compare", "--out", str(out)]) == 130
    assert "no table yet: the baseline 'uniform' has no finished run" in capsys.readouterr().err


def test_seeds_alone_are_added_to_the_plan(whole, tmp_path, monkeypatch):
    from metis.comparisons.schedule import Schedule

    out, asked = tmp_path / "more", []
    shutil.copytree(whole, out)
    monkeypatch.setattr(Schedule, "train", lambda schedule, runs: asked.extend(runs))
    assert main(["compare", "--seeds", "7", "--out", str(out)]) == 1
    assert [run.name for run in asked] == ["uniform-7", "metis-7"]


def test_other_settings_need_another_folder(whole, capsys):
    assert main(["compare", "steps=9", *VARIANTS, "--out", str(whole)]) == 2
    assert "was begun with" in capsys.readouterr().err
    again = ["compare", *SETTINGS, "--variant", "metis:curriculum=dapo", "--out", str(whole)]
    assert main(again) == 2
    assert "another name" in capsys.readouterr().err
    assert main(["compare", "--baseline", "nobody", "--out", str(whole)]) == 2
    assert "there are uniform, metis" in capsys.readouterr().err


def test_the_settings_of_a_comparison_are_fixed(whole, capsys):
    assert main(["compare", "--out", str(whole), "steps=50"]) == 2
    assert "steps=50: the settings of a comparison are fixed" in capsys.readouterr().err


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "without a plan"])
def test_compare_and_report_give_one_table_of_a_run_whose_log_is_short(whole, tmp_path, planned):
    """It is in neither, though the plan calls it finished, and is not trained over."""
    out = tmp_path / "short"
    shutil.copytree(whole, out)
    cut(out / "metis-1", 7)
    if not planned:
        (out / "compare.json").unlink()
    log = (out / "metis-1/metrics.jsonl").read_bytes()
    assert main(["compare", "--out", str(out)]) == 1
    assert main(["report", str(out), "--out", str(tmp_path / "elsewhere")]) == 0
    text = table(out)
    assert text == table(tmp_path / "elsewhere")
    assert "- metis-1 not finished: its log ends at step 6 of 12" in text
    assert ("; restore it, or delete metis-1 to train it again" in text) == planned
    assert "| metis   | 0 " in text and "| rollouts = 384 " in text, (
        "its variant is not cut short by it"
    )
    assert (out / "metis-1/metrics.jsonl").read_bytes() == log


def test_a_damaged_run_is_named_and_the_others_are_compared(whole, tmp_path):
    out = tmp_path / "damaged"
    shutil.copytree(whole, out)
    log = out / "metis-1/metrics.jsonl"
    log.write_text(log.read_text().replace('"eval/accuracy": ', '"eval/accuracy": "high", "": ', 1))
    (out / "metis-0/config.json").write_text("{")
    assert main(["compare", "--out", str(out)]) == 1
    assert "- metis-0 damaged: config.json;" in table(out)
    assert "- metis-1 damaged: metrics.jsonl, line 1;" in table(out)
    assert main(["report", str(out)]) == 0 and "- metis-1 damaged" in table(out)


def test_a_finished_comparison_needs_neither_its_recipe_nor_a_folder_to_write(
    tmp_path, monkeypatch, capsys
):
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out"
    recipe.write_text('engine = "simulated"\nsteps = 4\nevaluate = 2\nbatch = 8\n')
    words = ["compare", str(recipe), "--curricula", "uniform,metis", "--seeds", "0"]
    assert main([*words, "--out", str(out)]) == 0
    recipe.write_text(recipe.read_text().replace("steps = 4", "steps = 8"))
    assert main(["compare", "--out", str(out)]) == 0
    recipe.unlink()
    for baseline in ("metis", "uniform"):
        assert main(["compare", "--baseline", baseline, "--out", str(out)]) == 0
        assert json.loads((out / "compare.json").read_text())["baseline"] == baseline
    assert main(["compare", "--out", str(out)]) == 0
    before, _ = table(out), capsys.readouterr()

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("metis.files.atomic", full)
    assert main(["compare", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert before in said.out and f"`metis report {out} --out DIR` writes" in said.err
    assert main(["compare", "--out", str(out), "--seeds", "1"]) == 2
    assert capsys.readouterr().err.endswith(f"; `metis report {out}` shows what is there\n")


def test_a_full_disk_names_the_plan(tmp_path, monkeypatch, capsys):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("metis.files.atomic", full)
    out = tmp_path / "out"
    assert main(["compare", *SETTINGS, "--curricula", "uniform", "--out", str(out)]) == 2
    assert f"'{out / 'compare.json'}' cannot be written (No space" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schema", 2, "has schema 2, this METIS reads 1"),
        ("arms", {}, "is damaged"),
        ("arms", {"uniform": "curriculum=uniform"}, "is damaged"),
        ("seeds", [], "is damaged"),
        ("seeds", ["0"], "is damaged"),
        ("baseline", "nobody", "is damaged"),
    ],
)
def test_a_plan_of_another_kind_is_named(whole, tmp_path, capsys, key, value, message):
    document = json.loads((whole / "compare.json").read_text())
    (tmp_path / "compare.json").write_text(json.dumps(document | {key: value}))
    for command in (["compare", "--out", str(tmp_path)], ["report", str(tmp_path)]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "compare.json" in said and message in said


FRAMES = 'Traceback (most recent call last):\n  File "own.py", line 3, in step\n    raise x\n'


@pytest.mark.parametrize(
    ("code", "log", "why"),
    [
        (1, f"{FRAMES}RuntimeError: boom\nsecond line\n", "RuntimeError: boom"),
        (1, f"{FRAMES}KeyError: 1\n\nDuring it:\n\n{FRAMES}ValueError: 2\n", "ValueError: 2"),
        (2, f"{FRAMES}OSError\nmetis: batch = 0: use at least 1\n", "batch = 0: use at least 1"),
        (3, "metis: without its data, for now\nstep 1\n", "step 1 (exit code 3)"),
        (3, "", "exit code 3, no output"),
    ],
)
def test_a_failure_is_what_the_log_has_of_it_since_this_start(tmp_path, code, log, why):
    from metis.comparisons.schedule import _failure

    earlier = f"{FRAMES}RuntimeError: of another start\n"
    (tmp_path / "a.log").write_text(earlier + log)
    assert _failure(code, tmp_path / "a.log", len(earlier)) == why


def test_of_a_folder_that_cannot_be_written_the_report_goes_elsewhere(whole, monkeypatch, capsys):
    def read_only(path):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("metis.comparisons.command.lock_folder", read_only)
    assert main(["compare", "--seeds", "7", "--out", str(whole)]) == 2
    said = capsys.readouterr().err
    assert "cannot be written (Read-only file system)" in said
    assert said.endswith(f"; `metis report {whole} --out DIR` shows what is there\n")


def edited(config, **settings):
    """Settings of a run's engine changed by hand, as those of another run would be."""
    document = json.loads(config.read_text())
    document["engine"] |= settings
    config.write_text(json.dumps(document))


def test_a_run_that_is_validated_otherwise_is_named_and_left_out(whole, tmp_path):
    out = tmp_path / "unlike"
    shutil.copytree(whole, out)
    edited(out / "metis-1/config.json", hardness=9.0)
    assert main(["compare", "--out", str(out)]) == 0
    text = table(out)
    assert "## Not compared" in text and "- metis-1: engine.hardness = 9.0, not " in text
    assert "1 run against 2" in text and "| metis   | 0 " in text
    edited(out / "metis-0/config.json", hardness=9.0)
    assert main(["report", str(out)]) == 0
    text = table(out)
    assert "- metis-0, metis-1: engine.hardness = 9.0, not " in text and "| metis " not in text


def test_the_odd_run_of_a_baseline_is_the_one_that_is_left_out(whole, tmp_path):
    out = tmp_path / "odd"
    shutil.copytree(whole, out)
    for seed in (2, 3):
        shutil.copytree(out / f"uniform-{seed - 2}", out / f"uniform-{seed}")
    (out / "compare.json").unlink()
    edited(out / "uniform-0/config.json", hardness=9.0)
    assert main(["compare", "--out", str(out)]) == 0
    text = table(out)
    assert "- uniform-0: engine.hardness = 9.0, not " in text
    assert "| uniform | 1, 2, 3 " in text and "2 runs against 3" in text


def test_a_variant_that_will_not_be_compared_is_named_before_it_is_trained(tmp_path, capsys):
    hard = ["--variant", "hard:curriculum=uniform,engine.hardness=2", "--seeds", "0"]
    command = ["compare", *SETTINGS, "--curricula", "uniform,metis", *hard, "--out"]
    assert main([*command, str(tmp_path / "cmp")]) == 0
    said = capsys.readouterr()
    assert "'hard' will not be compared with 'uniform': engine.hardness = 2.0, not " in said.err
    assert "'metis'" not in said.err and "- hard-0: engine.hardness = 2.0, not " in said.out
