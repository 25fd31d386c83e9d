"""`metis export --messages` and `--inspect`: every rollout is there, and wrong uses are refused."""

import json
import os
import tracemalloc
import zipfile

import pytest

import metis
from metis import MetisError
from metis.cli import main
from metis.export import inspect_logs
from metis.run.transcripts import Transcripts
from shown_folders import Folder

FOUR = {"rewards": [1.0, 0.0, None, 0.5]}


@pytest.fixture
def run(tmp_path):
    """Training steps 1 and 2, two validations, and a judgment."""
    folder = Folder(tmp_path / "sums")
    folder.say("a/1", "It is 4.", "It is 5.", "It ", "4?", **FOUR)
    turns = [
        {"role": "assistant", "content": "<tool_call>add</tool_call>"},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "So 4."},
    ]
    folder.say("a/2", turns, step=2, rewards=[1.0])
    for step in (0, 20):
        folder.say("held", "Yes.", "No.", step=step, kind="eval")
    return folder.path


def exported(run, *words):
    return main(["export", str(run), *map(str, words)])


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def contents(path):
    """The samples, the summaries and the header of a log."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        read = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    summaries, header = read.pop("summaries.json"), read.pop("header.json")
    return read, summaries, header


def test_messages_are_a_row_per_rollout(run, tmp_path, capsys):
    assert exported(run, "--messages", tmp_path / "out.jsonl") == 0
    assert "9 rollouts" in capsys.readouterr().out
    written = rows(tmp_path / "out.jsonl")
    assert [row["kind"] for row in written] == ["train"] * 5 + ["eval"] * 4
    first, several = written[0], written[4]
    assert first["messages"] == [
        {"role": "user", "content": "What is a/1?"},
        {"role": "assistant", "content": "It is 4."},
    ]
    assert (first["step"], first["prompt"], first["category"]) == (1, "a/1", "sums")
    assert (first["reward"], first["tokens"], first["truncated"]) == (1.0, 10, False)
    assert written[2]["reward"] is None and "no number" in written[2]["failure"]
    roles = [message["role"] for message in several["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert len({tuple(row) for row in written}) == 1


@pytest.mark.parametrize(
    ("kind", "log"), [("train", "metrics"), ("survey", "outcomes"), ("eval", "answers")]
)
def test_python_writes_what_the_command_writes(kind, log, tmp_path):
    folder = Folder(tmp_path / "made")
    folder.say("a/1", "It is 4.", "It is 5.", step=0, kind=kind)
    (folder.path / f"{log}.jsonl").touch()
    there = metis.load(folder.path)
    assert there.export_messages(tmp_path / "python.jsonl") == tmp_path / "python.jsonl"
    assert exported(folder.path, "--messages", tmp_path / "command.jsonl") == 0
    assert rows(tmp_path / "python.jsonl") == rows(tmp_path / "command.jsonl") != []
    logs = there.export_inspect(str(tmp_path / "logs"))
    assert exported(folder.path, "--inspect", tmp_path / "again") == 0
    [log], [again] = logs.iterdir(), (tmp_path / "again").iterdir()
    assert log.name == again.name and contents(log)[0].keys() == contents(again)[0].keys()
    with pytest.raises(MetisError, match="already there"):
        there.export_messages(tmp_path / "python.jsonl")


def test_a_rollout_that_was_asked_otherwise_keeps_its_question(tmp_path):
    folder = Folder(tmp_path / "own")
    asked = [{"role": "user", "content": "Another?"}]
    said = [{"role": "assistant", "content": "Yes."}]
    row = {"messages": said, "reward": 1.0, "tokens": 1, "truncated": False, "failure": None}
    head = {"step": 1, "prompt": "p", "category": "", "messages": [], "n": 1}
    Transcripts(folder.path).append("train", head, [{"rollout": 0, **row, "asked": asked}])
    assert exported(folder.path, "--messages", tmp_path / "out.jsonl") == 0
    assert rows(tmp_path / "out.jsonl")[0]["messages"] == asked + said


def test_logs_are_one_per_validation_and_one_per_range_of_steps(run, tmp_path, capsys):
    assert exported(run, "--inspect", tmp_path / "logs") == 0
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == ["eval-00000.eval", "eval-00020.eval", "train-00001-00002.eval"]
    said = capsys.readouterr().out
    assert "9 rollouts in 3 logs" in said and "inspect view --log-dir" in said


def test_a_log_has_samples_summaries_and_a_header(run, tmp_path):
    exported(run, "--inspect", tmp_path / "logs")
    samples, summaries, header = contents(tmp_path / "logs/train-00001-00002.eval")
    assert list(samples) == [
        *(f"samples/1/a/1_epoch_{epoch}.json" for epoch in (1, 2, 3, 4)),
        "samples/2/a/2_epoch_1.json",
    ]
    for name, sample in samples.items():
        assert name == f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
    assert [(each["id"], each["epoch"]) for each in summaries] == [
        (sample["id"], sample["epoch"]) for sample in samples.values()
    ]
    right, wrong, failed, _, several = samples.values()
    assert right["scores"]["reward"]["value"] == 1.0 and wrong["scores"]["reward"]["value"] == 0.0
    assert failed["scores"] is None and "no number" in failed["error"]["message"]
    assert [message["role"] for message in several["messages"]][1:3] == ["assistant", "tool"]
    [choice] = several["output"]["choices"]
    assert choice["message"]["content"] == "So 4." and choice["stop_reason"] == "stop"
    assert right["metadata"]["step"] == 1 and right["metadata"]["prompt"] == "a/1"
    [score] = header["results"]["scores"]
    assert score["metrics"]["mean"]["value"] == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert (score["scored_samples"], score["unscored_samples"]) == (4, 1)
    assert (header["version"], header["results"]["total_samples"]) == (2, 5)
    assert header["eval"]["config"]["epochs"] == 4


def test_parts_of_a_reward_are_scores_and_a_truncated_answer_says_so(tmp_path):
    folder = Folder(tmp_path / "parts")
    row = {"rollout": 0, "reward": 0.5, "parts": {"format": 1.0, "said": "near", "reward": 2.0}}
    said = [{"role": "assistant", "content": "x" * 1000}]
    row |= {"messages": said, "tokens": 7, "truncated": True, "failure": None, "trained": True}
    head = {"step": 1, "prompt": "p", "category": "", "messages": [], "n": 1}
    Transcripts(folder.path).append("train", head, [row])
    exported(folder.path, "--inspect", tmp_path / "logs")
    samples, [summary], header = contents(tmp_path / "logs/train-00001.eval")
    [sample] = samples.values()
    values = {name: score["value"] for name, score in sample["scores"].items()}
    assert values == {"reward": 0.5, "format": 1.0, "said": "near"}
    assert sample["output"]["choices"][0]["stop_reason"] == "max_tokens"
    assert summary["metadata"]["truncated"] and len(json.dumps(summary)) < 1000
    assert [score["name"] for score in header["results"]["scores"]] == ["reward", "format"]


def test_a_judgment_has_its_score(tmp_path):
    folder = Folder(tmp_path / "judged")
    row = {"rollout": 0, "messages": [], "score": 0.2, "failure": None, "tokens": 3}
    head = {"step": 1, "prompt": "p", "category": "", "messages": [], "n": 1}
    Transcripts(folder.path).append("judge", head, [{**row, "truncated": False}])
    exported(folder.path, "--inspect", tmp_path / "logs")
    exported(folder.path, "--messages", tmp_path / "out.jsonl")
    [sample] = contents(tmp_path / "logs/judge-00001.eval")[0].values()
    assert sample["scores"]["score"]["value"] == 0.2
    [written] = rows(tmp_path / "out.jsonl")
    assert (written["kind"], written["score"], written["reward"]) == ("judge", 0.2, None)


def test_logs_end_with_a_step_once_they_are_large(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect_logs, "LARGE", 4)
    folder = Folder(tmp_path / "long")
    for step in range(1, 6):
        folder.say("a", "x", "y", step=step)
        folder.say("b", "z", step=step)
    exported(folder.path, "--inspect", tmp_path / "logs")
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == ["train-00001-00002.eval", "train-00003-00004.eval", "train-00005.eval"]


def test_a_survey_is_one_log_however_large(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect_logs, "LARGE", 4)
    folder = Folder(tmp_path / "surveyed")
    for place in range(6):
        folder.say(str(place), "x", "y", step=0, kind="survey")
    exported(folder.path, "--inspect", tmp_path / "logs")
    [log] = (tmp_path / "logs").iterdir()
    assert log.name == "survey-00000.eval" and len(contents(log)[0]) == 12


def test_benchmarks_with_the_same_ids_are_kept_apart(tmp_path):
    folder = Folder(tmp_path / "tested")
    for name in ("aime", "math"):
        folder.say("1", "x", step=0, kind="eval", benchmark=name)
    exported(folder.path, "--inspect", tmp_path / "logs")
    samples, _, _ = contents(tmp_path / "logs/eval-00000.eval")
    assert [sample["id"] for sample in samples.values()] == ["0/aime/1", "0/math/1"]


@pytest.mark.parametrize("prompt", ["a\0b", "\ud800", "x" * 70_000, "\x1b[31m", "../../etc", "/é"])
def test_ids_of_any_kind_are_names_of_files(tmp_path, prompt):
    folder = Folder(tmp_path / "odd")
    folder.say(prompt, "half \ud800 a pair", "two", step=3)
    exported(folder.path, "--inspect", tmp_path / "logs")
    assert exported(folder.path, "--messages", tmp_path / "out.jsonl") == 0
    samples, summaries, _ = contents(tmp_path / "logs/train-00003.eval")
    assert len(samples) == len(summaries) == len(rows(tmp_path / "out.jsonl")) == 2
    for name, sample in samples.items():
        assert name == f"samples/{sample['id']}_epoch_{sample['epoch']}.json"


@pytest.mark.parametrize("option", ["--messages", "--inspect"])
def test_nothing_is_left_of_an_export_that_fails(run, tmp_path, option, monkeypatch, capsys):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = sorted(tmp_path.iterdir())
    assert exported(run, option, tmp_path / "out") == 2
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("option", ["--messages", "--inspect"])
def test_a_damaged_transcript_is_said_and_leaves_nothing(run, tmp_path, option, capsys):
    file = run / "transcripts/train-00000.jsonl.gz"
    content = bytearray(file.read_bytes())
    content[30] ^= 0xFF
    file.write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert exported(run, option, tmp_path / "out") == 2
    assert "is damaged" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--messages FILE, or --inspect DIR"),
        (["new", "--messages", "out.jsonl"], "one thing at a time"),
        (["--inspect", "logs", "--messages", "out.jsonl"], "one thing at a time"),
        (["--messages", "out.jsonl", "--dtype", "bfloat16"], "--dtype is for models"),
        (["--inspect", "logs", "--checkpoint", "best"], "--checkpoint is for models"),
        (["--inspect", "logs", "--adapter"], "--adapter is for models"),
        (["--messages", "there"], "already there"),
        (["--inspect", "there"], "already there"),
        (["--messages", "nowhere/out.jsonl"], "is no folder"),
    ],
)
def test_a_wrong_use_is_refused_in_one_line(run, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("mine")
    before = sorted(tmp_path.iterdir())
    assert exported(run, *words) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "there").read_text() == "mine"


@pytest.mark.parametrize("option", ["--messages", "--inspect"])
def test_a_folder_without_transcripts_is_refused(tmp_path, option, capsys):
    folder = Folder(tmp_path / "old")
    assert exported(folder.path, option, tmp_path / "out") == 2
    assert "has no transcripts" in capsys.readouterr().err


def test_memory_does_not_grow_with_the_groups_of_a_log(tmp_path):
    def peak(steps):
        folder = Folder(tmp_path / f"of-{steps}")
        for step in range(1, steps + 1):
            folder.say("p", "The answer is not easy to find. " * 10_000, step=step)
        tracemalloc.start()
        try:
            exported(folder.path, "--inspect", tmp_path / f"logs-of-{steps}")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(30) < 1.2 * peak(3)
