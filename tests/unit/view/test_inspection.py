"""`metis inspect` on a run of the simulated engine."""

import json
import shutil
from types import SimpleNamespace

import pytest

import metis
from metis.cli import main
from metis.run import folder as run_folder
from metis.text import printable
from shown_folders import Folder, message


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("inspect") / "run"
    settings = {"engine": {"name": "simulated", "failures": 0.2}, "curriculum": "metis"}
    metis.train(out=out, steps=6, batch=4, group=4, evaluate=3, show=False, **settings)
    return out


def shown(capsys, *words):
    assert main(["inspect", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_every_step_is_a_line(run, capsys):
    lines = shown(capsys, run).splitlines()
    assert lines[0].split()[:2] == ["step", "groups"] and len(lines) == 8
    assert [line.split()[0] for line in lines[1:]] == [str(step) for step in range(7)]


def test_a_step_shows_its_groups_and_with_all_its_candidates(run, capsys):
    groups = [row for row in run_folder.read_log(run, "rollouts") if row["step"] == 5]
    candidates = [row for row in run_folder.read_log(run, "judgments") if row["step"] == 5]
    text = shown(capsys, run, "--step", 5)
    assert all(row["prompt"] in text for row in groups)
    left = len(candidates) - len(groups)
    assert f"{left} candidates were not chosen" in text
    whole = shown(capsys, run, "--step", 5, "--all")
    assert all(row["prompt"] in whole for row in candidates)
    marks = sum(whole.count(mark) for mark in "●○×")
    assert marks == sum(len(row["rewards"]) + row["failed"] for row in groups)


def test_a_prompt_shows_its_prediction_its_outcome_and_the_exemplars(run, capsys):
    (group, *_) = [row for row in run_folder.read_log(run, "rollouts") if row["step"] == 6]
    text = shown(capsys, run, "--step", 6, "--prompt", group["prompt"])
    assert "propensity" in text and "predicted" in text and "exemplar shown" in text
    assert ", ".join(map(str, group["tokens"])) in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--step", "7"], "steps 1 to 6"),
        (["--step", "-1"], "steps 1 to 6"),
        (["--prompt", "x"], "the run has no such prompt"),
        (["--answer", "x"], "write STEP/ID/K"),
        (["--answer", "2/x/0"], "is not there, or kept none"),
        (["--step", "2", "--prompt", "x"], "no such prompt"),
    ],
)
def test_what_is_not_there_is_one_line(run, capsys, words, message):
    assert main(["inspect", str(run), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert main(["inspect", str(tmp_path)]) == 2
    assert "no config.json" in capsys.readouterr().err


def test_nothing_that_a_run_wrote_is_obeyed_by_the_terminal(run, capsys, tmp_path):
    hostile = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp.exe [red]x[/red]"
    copy = shutil.copytree(run, tmp_path / "hostile")
    fields = {"text": hostile, "answers": [hostile], "category": hostile, "reply": hostile}
    for log in ("rollouts", "judgments"):
        rows = [{**row, **fields, "prompt": hostile} for row in run_folder.read_log(run, log)]
        (copy / f"{log}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = shown(capsys, copy, "--step", 5) + shown(capsys, copy, "--step", 5, "--prompt", hostile)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
    assert text.count("\\x1b[2J") >= 4 and "[red]x[/red]" in text
    for prompt in (hostile, printable(hostile)):
        rows = shown(capsys, copy, "--step", 5, "--prompt", prompt, "--json")
        assert rows.isascii() and "\x1b" not in rows and json.loads(rows)["prompt"] == hostile


@pytest.mark.parametrize(
    ("log", "field"),
    [
        ("rollouts", {"rewards": None}),
        ("rollouts", {"rewards": ["1"]}),
        ("rollouts", {"tokens": None}),
        ("rollouts", {"tokens": ["1"]}),
        ("rollouts", {"failed": "2"}),
        ("judgments", {"score": "0.1"}),
        ("judgments", {"distribution": [0.1]}),
        ("timings", {"elapsed": "1 s"}),
        ("metrics", {"batch/reward": "0.5"}),
        ("metrics", {"eval/accuracy": "0.5"}),
    ],
)
def test_a_row_of_the_wrong_kind_is_named_by_all_that_read_it(run, capsys, tmp_path, log, field):
    copy = shutil.copytree(run, tmp_path / "damaged")
    rows = [{**row, **field} for row in run_folder.read_log(run, log)]
    (copy / f"{log}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    bundle = ["--bundle", str(tmp_path / "page")]
    for words in (["inspect", str(copy), "--step", "2"], ["view", str(copy), *bundle]):
        assert main(words) == 2
        assert f"{log}.jsonl, line" in capsys.readouterr().err
    assert not (tmp_path / "page" / "index.html").exists()


def test_an_empty_run_has_no_step(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "empty")
    (copy / "metrics.jsonl").write_text("")
    assert main(["inspect", str(copy), "--step", "1"]) == 2
    assert "--step 1: the run has no step yet" in capsys.readouterr().err


def test_a_prompt_is_shown_over_all_steps(run, capsys):
    rows = run_folder.read_log(run, "judgments")
    prompt = next(row["prompt"] for row in rows if row["chosen"])
    steps = [str(row["step"]) for row in rows if row["prompt"] == prompt]
    lines = shown(capsys, run, "--prompt", prompt).splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("step"))
    assert [line.split()[0] for line in lines[head + 1 : -1]] == steps


@pytest.fixture
def spoken(tmp_path):
    folder = Folder(tmp_path / "spoken")
    folder.log("metrics", {"step": 1})
    text = "What is one plus one? " * 10
    folder.log("prompts", {"step": 1, "prompt": "a/b", "text": text})
    folder.log("judgments", {"step": 1, "prompt": "a/b", "chosen": True, "reason": "top"})
    group = {"rewards": [1.0, 0.0], "tokens": [10, 11], "failed": 1}
    folder.log("rollouts", {"step": 1, "prompt": "a/b", **group})
    turns = [message("call()"), message("error\x1b[2J", "tool"), message("two")]
    folder.say("a/b", turns, "three", "no", rewards=[1.0, 0.0, None], reference="2 apples")
    folder.say("v", "held out", kind="eval", rewards=[0.5])
    return folder.path


def test_prompts_of_a_step_are_shown_as_text(spoken, capsys):
    assert "What is one plus one?" in shown(capsys, spoken, "--step", 1)


def test_answers_are_listed_and_one_is_shown_with_its_turns(spoken, capsys):
    listed = shown(capsys, spoken, "--step", 1, "--prompt", "a/b")
    assert "--answer 1/a/b/0" in listed and "TypeError: no number" in listed and "three" in listed
    text = shown(capsys, spoken, "--answer", "1/a/b/0")
    order = ("expected", "2 apples", "user", "What is a/b?", "call()", "tool", "two")
    places = [text.index(said) for said in order]
    assert places == sorted(places) and "\x1b" not in text
    wrong = shown(capsys, spoken, "--answer", "1/a/b/1").splitlines()
    assert ["reward", "0"] in [line.split() for line in wrong], "a reward of 0 is one"
    unknown = shown(capsys, spoken, "--answer", "eval/1/v/0")
    assert "held out" in unknown and "expected" not in unknown
    assert main(["inspect", str(spoken), "--answer", "1/a/b/7"]) == 2
    assert "has answers 0, 1, 2" in capsys.readouterr().err


def test_examples_in_the_prompt_are_named_so(spoken, capsys):
    asked = [message("1 + 2?", "user"), message("3"), message("1 + 1?", "user")]
    Folder.say(SimpleNamespace(path=spoken), "few", "2", messages=asked)
    lines = shown(capsys, spoken, "--answer", "1/few/0").splitlines()
    roles = [line for line in lines if line.split(":")[0] in ("example", "user", "assistant")]
    assert roles == ["example: user", "example: assistant", "user", "assistant"]


def test_the_validation_before_training_is_step_0(spoken, run, capsys):
    asked = [message("What is 7?", "user")]
    Folder.say(
        SimpleNamespace(path=spoken),
        *("v", "it is 7", "eight"),
        **{"kind": "eval", "step": 0, "rewards": [1.0, 0.0]},
        **{"reference": "seven", "messages": asked},
    )
    text = shown(capsys, spoken, "--step", "0")
    assert "What is 7?" in text and "seven" in text and "●○" in text
    one = shown(capsys, spoken, "--step", "0", "--prompt", "v")
    assert "it is 7" in one and "--answer eval/0/v/0" in one
    assert "simulated:" in shown(capsys, run, "--step", "0"), "rewards are known without answers"


def test_a_step_has_what_is_expected(spoken, capsys):
    assert "2 apples" in shown(capsys, spoken, "--step", 1)
    assert "2 apples" in shown(capsys, spoken, "--step", 1, "--prompt", "a/b")


def test_json_has_what_the_tables_show(spoken, run, capsys):
    def data(*words):
        return json.loads(shown(capsys, *words, "--json"))

    assert data(run) == run_folder.read_log(run, "metrics")
    chosen, everyone = data(run, "--step", 5), data(run, "--step", 5, "--all")
    assert [row for row in everyone if row["chosen"]] == chosen != everyone
    history = data(run, "--prompt", chosen[0]["prompt"])
    assert chosen[0]["step"] in [row["step"] for row in history]
    [row] = data(spoken, "--step", 1)
    assert (
        row["expected"] == "2 apples" and row["text"].startswith("What is one") and "v" not in row
    )
    answers = data(spoken, "--step", 1, "--prompt", "a/b")["answers"]
    assert [answer["reward"] for answer in answers] == [1.0, 0.0, None]
    answer = data(spoken, "--answer", "1/a/b/0")
    assert answer["reference"] == "2 apples" and [m["role"] for m in answer["messages"]] == ["user"]
    assert [turn["content"] for turn in answer["said"]][-1] == "two"
    assert data(run, "--step", 0)[0]["prompt"].startswith("simulated:")
    assert main(["inspect", str(spoken), "--json", "--step", "1", "--prompt", "x"]) == 2
    assert main(["inspect", str(spoken), "--json", "--prompt", "x"]) == 2
    assert "no such prompt" in capsys.readouterr().err


def test_answers_that_a_log_keeps_are_shown_where_there_are_no_transcripts(tmp_path, capsys):
    folder = Folder(tmp_path / "old")
    folder.log("metrics", {"step": 1})
    group = {"rewards": [1.0, 0.0], "tokens": [10, 11], "failed": 0, "text": "1 + 1"}
    folder.log("rollouts", {"step": 1, "prompt": "a", **group, "answers": ["it is two"]})
    assert "it is two" in shown(capsys, folder.path, "--step", 1, "--prompt", "a")
    assert "1 + 1" in shown(capsys, folder.path, "--answer", "1/a/0")


def test_a_survey_is_inspected_too(tmp_path, capsys):
    folder = Folder(tmp_path / "survey")
    group = {"category": "sums", "rewards": [1.0, 0.0], "tokens": [1, 2], "failed": 0}
    folder.log("outcomes", {"prompt": "a", **group, "cut_off": 0})
    folder.say("a", "two", "three", step=0, kind="survey")
    assert "●○" in shown(capsys, folder.path)
    assert "three" in shown(capsys, folder.path, "--prompt", "a")
    assert "three" in shown(capsys, folder.path, "--answer", "0/a/1")
    [row] = json.loads(shown(capsys, folder.path, "--json"))
    assert row["text"] == "What is a?" and row["rewards"] == [1.0, 0.0]
    assert main(["inspect", str(folder.path), "--prompt", "b"]) == 2
