"""The command line: what it prints, what it refuses, and that refusing leaves nothing behind."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import fields

import pytest

from metis import Group
from metis.cli import main
from metis.config import resolve
from metis.curricula import CURRICULA
from metis.curricula.judges import JUDGES
from metis.engines import ENGINES
from metis.engines.simulated import SimulatedEngine
from metis.loop import Run
from metis.run.folder import LOGS, read_log

SHORT = [
    "steps=4",
    "batch=4",
    "group=2",
    "engine.prompts=40",
    "checkpoints.every=2",
    "evaluate=2",
    "engine=simulated",
]


def metis(*arguments):
    return main(["train", *SHORT, *arguments])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *words):
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("metis: ")
    for word in words:
        assert word in lines[0]


def test_a_run_ends_with_a_summary_and_a_whole_folder(capsys, tmp_path):
    assert metis("--out", "run") == 0
    printed = capsys.readouterr().out
    assert "held-out accuracy" in printed and "run folder: run" in printed
    names = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    logs = {f"{log}.jsonl" for log in LOGS}
    assert names == {"config.json", "versions.json", "pool.json", "checkpoints", *logs}
    assert [row["step"] for row in read_log(tmp_path / "run", "metrics")] == [0, 1, 2, 3, 4]
    assert all(row["schema"] == 1 for log in LOGS for row in read_log(tmp_path / "run", log))
    assert [p.name for p in (tmp_path / "run/checkpoints").iterdir()] != []


def test_the_same_command_finds_its_finished_run(capsys, tmp_path):
    assert metis() == 0
    assert metis() == 0
    assert "this run is complete" in capsys.readouterr().out
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert metis("seed=1") == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.parametrize("name", CURRICULA)
def test_every_curriculum_trains_in_the_simulation(name):
    assert metis(f"curriculum={name}", "group=4", "--out", name) == 0


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("batchh=3", ["'batchh'", "'batch'"]),
        ("batch=three", ["batch = 'three'"]),
        ("batch=41", ["batch = 41", "40 prompts", "smaller batch"]),
        ("curriculum.multiplier=0", ["curriculum.multiplier = 0"]),
        ("curriculum.judge.examples=-1", ["curriculum.judge.examples = -1"]),
    ],
)
def test_wrong_input_is_one_line_exit_code_2_and_no_folder(capsys, tmp_path, setting, words):
    assert metis(setting, "--out", "run") == 2
    refused(capsys, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["curriculum=sec", "engine.skills=1"], ["curriculum.categories = 'label'", "all 40"]),
        (["curriculum=staged", 'curriculum.stages=["maths"]'], ["curriculum.stages = 'maths'"]),
        (
            ["curriculum=staged", "engine.skills=1"],
            ["curriculum.stages = []", "all 40 training prompts"],
        ),
        (["curriculum=e2h", 'curriculum.order=["easy"]'], ["curriculum.order = ['easy']"]),
    ],
)
def test_what_the_data_cannot_serve_is_refused_before_anything_runs(
    capsys, monkeypatch, tmp_path, settings, words
):
    monkeypatch.delattr(SimulatedEngine, "evaluate")
    assert metis(*settings, "--out", "run") == 2
    refused(capsys, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reward", [1.5, -0.1, float("nan"), float("inf")])
def test_rewards_outside_the_unit_interval_stop_the_run(capsys, monkeypatch, reward):
    def rollout(self, prompts, n):
        return [Group(prompt, (reward,), ()) for prompt in prompts]

    monkeypatch.setattr(SimulatedEngine, "rollout", rollout)
    assert metis("--out", "run") == 2
    refused(capsys, f"= {reward!r}", "[0, 1]", "simulated:")


def test_a_folder_of_another_run_is_left_alone(capsys, tmp_path):
    assert metis("--out", "run") == 0
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert metis("--out", "run", "seed=1") == 2
    refused(capsys, "--out 'run'", "seed = 0, not 1")
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before


def test_a_folder_that_is_no_run_is_left_alone(capsys, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    assert metis("--out", "mine") == 2
    refused(capsys, "'mine'", "not a run folder")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_an_unwritable_place_is_named(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert metis("--out", "file/run") == 2
    refused(capsys, "'file/run'", "lies in 'file', which is a file")
    assert metis("--out", "/proc/run") == 2
    refused(capsys, "'/proc/run'", "cannot be written")


def test_a_folder_in_use_is_not_shared(capsys):
    import fcntl

    assert metis("--out", "run") == 0
    shutil.rmtree("run/checkpoints")
    capsys.readouterr()
    with open("run/.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert metis("--out", "run") == 2
    refused(capsys, "in use by another process")


def interrupt(monkeypatch, after):
    """Make the engine fail in the middle of a step, like a crash."""
    update = SimulatedEngine.update

    def crash(self, batch):
        if self.version == after:
            raise ZeroDivisionError
        return update(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedEngine, "update", crash)
        with pytest.raises(ZeroDivisionError):
            metis("--out", "run")


def test_a_truncated_state_file_is_named_and_the_one_before_still_works(
    capsys, monkeypatch, tmp_path
):
    assert metis("--out", "straight") == 0
    interrupt(monkeypatch, after=3)
    latest = tmp_path / "run/checkpoints/step-000002/run.state"
    latest.write_bytes(latest.read_bytes()[:-7])
    capsys.readouterr()
    assert metis("--out", "run") == 2
    refused(capsys, "step-000002/run.state", "truncated or damaged", "delete the folder")
    shutil.rmtree(latest.parent)
    assert metis("--out", "run") == 0
    straight = (tmp_path / "straight/metrics.jsonl").read_bytes()
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == straight


def test_a_log_shorter_than_its_checkpoint_is_refused(capsys, monkeypatch, tmp_path):
    interrupt(monkeypatch, after=3)
    (tmp_path / "run/metrics.jsonl").write_text("")
    capsys.readouterr()
    assert metis("--out", "run") == 2
    refused(capsys, "metrics.jsonl", "shorter than its checkpoint")


@pytest.mark.parametrize("log", ["metrics", "timings"])
def test_a_log_of_other_bytes_is_named_on_resume(capsys, monkeypatch, tmp_path, log):
    interrupt(monkeypatch, after=3)
    path = tmp_path / f"run/{log}.jsonl"
    path.write_bytes(b"\xff\xfe" + path.read_bytes()[2:])
    capsys.readouterr()
    assert metis("--out", "run") == 2
    refused(capsys, f"{log}.jsonl, line 1, is damaged", "restore the file")


def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(capsys, tmp_path):
    assert metis("--out", "straight") == 0
    capsys.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        assert metis("--out", "run") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    refused(capsys, "'run'", "cannot be written", "cannot be written")
    assert not list((tmp_path / "run").rglob("*.draft"))
    assert metis("--out", "run") == 0
    for log in LOGS:
        straight = (tmp_path / f"straight/{log}.jsonl").read_bytes()
        assert (tmp_path / f"run/{log}.jsonl").read_bytes() == straight


def test_only_the_latest_checkpoints_are_kept(tmp_path):
    assert metis("--out", "run", "checkpoints.every=1", "checkpoints.keep=2") == 0
    kept = sorted(path.name for path in (tmp_path / "run/checkpoints").glob("step-*"))
    assert kept == ["step-000003", "step-000004"]


@pytest.mark.parametrize("place", [".", "[/x]", "a b/ü"])
def test_odd_folder_names_work(place):
    assert metis("--out", place) == 0


@pytest.mark.parametrize(
    "setting",
    [
        "curriculum.preset=[1]",
        "engine.name=[1]",
        "steps=" + "1" * 5000,
        "steps=" + "[" * 5000,
        "foo={}",
        "seed=1\nfoo=3",
        "engine.spread=-1",
        "curriculum.judge.weight=inf",
    ],
)
def test_hostile_settings_are_one_line_too(capsys, setting):
    assert metis(setting, "--out", "run") == 2
    refused(capsys)


def test_a_metric_that_is_no_number_stops_the_run_by_name(capsys, monkeypatch):
    monkeypatch.setattr(
        SimulatedEngine, "update", lambda self, batch: {"loss/policy": float("nan")}
    )
    assert metis("--out", "run") == 2
    refused(capsys, "loss/policy = nan in step 1")


def test_dry_run_prints_the_settings_and_makes_nothing(capsys, tmp_path):
    assert metis("--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 4
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def nothing_is_loaded(monkeypatch):
    """Call it, and no engine can be built any more."""
    return lambda: monkeypatch.delattr(Run, "build")


def test_a_dry_run_loads_nothing(capsys, tmp_path, nothing_is_loaded):
    nothing_is_loaded()
    assert main(["train", "--dry-run"]) == 0
    assert 'model = "smollm2-135m"' in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_the_pool_cannot_fill_is_refused_before_a_model_is_loaded(
    capsys, tmp_path, monkeypatch
):
    def build(*_):
        pytest.fail("a model was loaded")

    monkeypatch.setitem(ENGINES, "local", ENGINES["local"]._replace(build=build))
    assert main(["train", "batch=601"]) == 2
    assert "batch = 601: the training set has only 600 prompts" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_pool_with_little_to_choose_from_is_told_of_once(capsys):
    for words, count in (([], 0), (["batch=32"], 1), (["batch=32", "curriculum=uniform"], 0)):
        assert metis(*words, "--out", "-".join(["run", *words])) == 0
        told = "the training set has 40 prompts for a batch of 32"
        assert capsys.readouterr().out.count(told) == count


def test_the_quickstart_s_settings_are_told_of_where_others_are_given(capsys):
    assert main(["train", "--dry-run"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["train", "curriculum=uniform", "batch=64", "--dry-run"]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("metis: quickstart settings (8 steps, answers of 16 tokens): name")


def test_a_run_folder_is_no_recipe_and_the_command_that_goes_on_is_told(capsys):
    assert metis("--out", "run") == 0
    capsys.readouterr()
    assert main(["train", "run", "steps=6"]) == 2
    refused(capsys, "is a run folder; to go on: metis train run/config.json steps=6 --out run")
    assert main(["train", "run", "seed=6", "--out", "b"]) == 2
    refused(capsys, "with its settings: metis train run/config.json seed=6 --out b")
    assert main(["survey", "run"]) == 2
    refused(capsys, "the settings of this run are 'run/config.json'")
    assert main(["train", "run/config.json", "steps=6", "--out", "run"]) == 0


def test_a_complete_run_is_shown_before_anything_is_loaded(capsys, nothing_is_loaded):
    assert metis("--out", "run") == 0
    nothing_is_loaded()
    capsys.readouterr()
    assert metis("--out", "run") == 0
    assert "this run is complete" in capsys.readouterr().out


def test_a_wrong_folder_is_refused_before_anything_is_loaded(capsys, tmp_path, nothing_is_loaded):
    import fcntl

    assert metis("--out", "run") == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    nothing_is_loaded()
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    for setting, out, words in (
        ("seed=1", "run", "seed = 0, not 1"),
        ("seed=0", "mine", "not a run folder"),
        ("seed=0", "mine/thesis.txt/run", "is a file: name a folder"),
        ("seed=0", "/proc/run", "cannot be written"),
    ):
        assert metis("--out", out, setting) == 2
        refused(capsys, words)
    with open("run/.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert metis("--out", "run", "steps=6") == 2
    refused(capsys, "in use by another process")
    assert sorted(tmp_path.rglob("*")) == before


def test_curricula_are_listed_one_line_each(capsys):
    assert main(["curricula"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CURRICULA)
    width = max(map(len, CURRICULA)) + 2
    assert all(line[:width].endswith("  ") and line[width] != " " for line in lines)
    assert all(line.endswith(".") and len(line) <= 100 for line in lines)


def test_a_curriculum_explains_its_knobs(capsys):
    assert main(["curricula", "metis"]) == 0
    printed = capsys.readouterr().out
    assert "arXiv 2605.11235" in printed and "explore" in printed and "paper" in printed
    for name, kind in JUDGES.items():
        about = printed.partition(f"\ncurriculum.judge={name}  ")[2]
        about = about.partition("\ncurriculum.")[0]
        for knob in fields(kind):
            explained = re.search(rf"\n  curriculum\.judge\.{knob.name}=\S+  +\S", about)
            assert bool(explained) is knob.init, f"curriculum.judge.{knob.name} of {name}"
    settings = printed.partition("\nNeeds  ")[2].splitlines()[2:]
    assert len(settings) <= 50 and all(len(line) <= 100 for line in settings), "more than a screen"
    assert main(["curricula", "nothing"]) == 2
    refused(capsys, "'nothing'", "metis, uniform, oracle")


def test_an_out_that_is_a_file_is_called_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text('{"problem": "p", "answer": "1"}\n')
    (tmp_path / "file.jsonl").write_text('{"problem": "p", "answer": "1"}\n')
    for command in (["train", "engine=simulated"], ["prepare", "math", "math=file.jsonl"]):
        for out, said in (("file", "--out 'file' is a file"), ("file/x", "lies in 'file', which")):
            assert main([*command, "--out", out]) == 2
            [line] = capsys.readouterr().err.splitlines()
            assert said in line and "name a folder" in line


def test_a_dry_run_says_where_a_recipe_s_preset_is_left(tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("engine = 'simulated'\n[curriculum]\nname = 'metis'\npreset = 'paper'\n")
    assert main(["train", str(recipe), "curriculum=dapo", "--dry-run", "--json"]) == 0
    said = capsys.readouterr()
    assert "dapo has no preset 'paper'" in said.err
    assert json.loads(said.out)["curriculum"]["name"] == "dapo"


def test_json_is_for_a_dry_run(capsys):
    assert metis("--json") == 2
    refused(capsys, "--json goes with --dry-run")


def test_a_run_s_config_is_a_recipe(tmp_path):
    assert metis("--out", "first") == 0
    assert main(["train", "first/config.json", "--out", "second"]) == 0
    first, second = (tmp_path / name / "metrics.jsonl" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_a_checkpoint_without_its_engine_is_named(capsys, monkeypatch, tmp_path):
    interrupt(monkeypatch, after=3)
    (tmp_path / "run/checkpoints/step-000002/engine.state").unlink()
    capsys.readouterr()
    assert metis("--out", "run") == 2
    refused(capsys, "step-000002", "delete that folder")


def test_help_and_version(capsys):
    for arguments, words in (([], "train"), (["--help"], "train"), (["--version"], "metis 0.")):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["trian"], "trian"), (["train", "--outt", "x"], "--outt"), (["curricula", "x", "y"], "'y'")],
)
def test_a_mistyped_command_is_one_line(capsys, arguments, word):
    assert main(arguments) == 2
    refused(capsys, word, "--help")


def setting(text):
    key, _, rest = text.partition("=")
    return key, json.JSONDecoder().raw_decode(rest)[0]


def told(capsys, name):
    """The settings that `metis curricula` lists: by default, of each judge, and of each preset."""
    assert main(["curricula", name]) == 0
    found = {"": (part := {})}
    for line in capsys.readouterr().out.partition("\nNeeds  ")[2].splitlines()[2:]:
        if line.startswith("curriculum.preset="):
            name, _, changed = line.partition("  ")
            words = [] if changed == "the defaults" else changed.split()
            found[name] = dict(setting(word) for word in words)
        elif not line.startswith("  "):
            part = found.setdefault(line.partition("  ")[0], {})
        elif not line.startswith("    "):
            key, value = setting(line.strip())
            part[key] = value
    return found


def test_a_curriculum_tells_its_defaults_those_of_its_judges_and_what_its_presets_change(capsys):
    assert main(["curricula", "metis"]) == 0
    printed = capsys.readouterr().out
    assert "\nNeeds  log-probabilities of choices\n" in printed
    found = told(capsys, "metis")
    assert found.pop("") == {
        "curriculum.multiplier": 8,
        "curriculum.explore": 0.1,
        "curriculum.trial": None,
        "curriculum.judge": "direct",
    }
    assert list(found) == [
        *(f"curriculum.judge={name}" for name in JUDGES),
        *(f"curriculum.preset={name}" for name in ("recommended", "readout", "paper")),
    ]
    assert found["curriculum.preset=recommended"] == {}
    assert found["curriculum.preset=readout"] == {"curriculum.judge": "readout"}
    assert found["curriculum.preset=paper"] == {
        "curriculum.judge": "reason",
        "curriculum.explore": 0.0,
        "curriculum.trial": 0,
    }


@pytest.mark.parametrize("name", ["metis", "probe"])
def test_the_settings_that_are_told_of_a_judge_are_those_of_a_run_with_it(capsys, name):
    found = told(capsys, name)
    for judge in JUDGES:
        section = {"name": name, "judge": judge}
        document = resolve({"curriculum": section}).resolved["curriculum"]["judge"]
        wanted = {f"curriculum.judge.{key}": value for key, value in document.items()}
        del wanted["curriculum.judge.name"]
        assert found[f"curriculum.judge={judge}"] == wanted


def test_a_curriculum_that_is_nearly_known_is_suggested(capsys):
    assert main(["curricula", "sce"]) == 2
    assert "did you mean 'sec'?" in capsys.readouterr().err


def test_a_run_that_was_killed_before_its_first_checkpoint_says_that_it_starts_over(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    command = ["train", "engine=simulated", "steps=2", "batch=4", "--out", "run"]
    assert main(command) == 0
    wanted = (tmp_path / "run/metrics.jsonl").read_bytes()
    assert "starting over" not in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run/checkpoints")
    assert main(command) == 0
    assert "no checkpoint was made yet: starting over" in capsys.readouterr().out
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == wanted


def test_a_reader_that_has_seen_enough_is_no_error():
    end, other = os.pipe()
    os.close(end)
    with os.fdopen(other, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "metis.cli", "curricula", "metis"],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["train", "--output", "x"], "did you mean --out?"),
        (["train", "--steps", "3"], "settings are written steps=VALUE"),
        (["report", "a", "--outputs", "x"], "did you mean --out?"),
    ],
)
def test_an_unknown_option_is_met_with_the_one_that_is_meant(words, hint, capsys):
    assert main(words) == 2
    assert hint in capsys.readouterr().err
