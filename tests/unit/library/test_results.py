"""Results of calls, and `metis.load`: tables of flat rows, and how they are shown."""

import inspect
import io
import json
from argparse import ArgumentParser

import pytest
from rich.console import Console

import metis
from metis import MetisError
from metis.comparisons import command as comparing
from metis.evals import command as evaluating
from metis.library.results import ComparisonResult, SurveyResult
from metis.rankings import command as ranking
from metis.run.folder import read_log
from metis.run.transcripts import Transcripts
from metis.surveys import command as surveying

SMALL = {"engine": "simulated", "batch": 4, "group": 4, "evaluate": 2, "show": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "a<b>"
    return metis.train(out=out, steps=4, curriculum="metis", **SMALL)


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    out = tmp_path_factory.mktemp("survey") / "s"
    return metis.survey(prompts=24, step=False, out=out, **SMALL)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison") / "c"
    bold = {"curriculum": {"name": "metis", "explore": 0.5}}
    given = {"curricula": ["uniform"], "variants": {"bold": bold}, "seeds": [0], "out": out}
    return metis.compare(steps=4, **given, **SMALL)


def flat(rows):
    """True of rows with the same plain columns, as far as they have them."""
    return rows and all(
        isinstance(value, str | int | float | None) for row in rows for value in row.values()
    )


def test_every_rollout_is_a_row(run):
    groups = read_log(run.path, "rollouts")
    counted = sum(len(group["rewards"]) + group["failed"] for group in groups)
    assert flat(run.rollouts) and len(run.rollouts) == counted == 64
    for group in groups:
        rows = [
            row
            for row in run.rollouts
            if (row["step"], row["prompt"]) == (group["step"], group["prompt"])
        ]
        assert [row["reward"] for row in rows] == group["rewards"]
        assert [row["rollout"] for row in rows] == list(range(4))


def test_every_candidate_is_a_row(run):
    rows, log = run.judgments, read_log(run.path, "judgments")
    assert len({tuple(row) for row in rows}) == 1, "a row has every column, None where not known"
    assert flat(rows) and len(rows) == len(log)
    assert [row["prompt"] for row in rows] == [row["prompt"] for row in log]
    judged = next(row for row in log if row.get("distribution"))
    (row,) = [
        row for row in rows if (row["step"], row["prompt"]) == (judged["step"], judged["prompt"])
    ]
    assert all(row[f"distribution/{name}"] == p for name, p in judged["distribution"].items())


def test_every_prompt_is_a_row(run):
    log = read_log(run.path, "judgments")
    rows = {row["prompt"]: row for row in run.prompts}
    assert flat(run.prompts) and rows.keys() == {row["prompt"] for row in log}
    assert sum(row["seen"] for row in rows.values()) == len(log)
    assert sum(row["chosen"] for row in rows.values()) == sum(row["chosen"] for row in log)
    assert sum(row["rollouts"] for row in rows.values()) == 64


def test_failed_rollouts_have_rows_without_a_reward(tmp_path):
    group = {"step": 1, "prompt": "a:1", "category": "", "text": "one", "answers": ["yes"]}
    group |= {"rewards": [1.0], "tokens": [3], "failed": 1, "reported": [{"words": 2}]}
    (tmp_path / "config.json").write_text(json.dumps({"schema": 1, "steps": 2}))
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(group) + "\n")
    first, second = metis.load(tmp_path).rollouts
    assert (first["answer"], first["reward"], first["reward/words"]) == ("yes", 1.0, 2)
    assert (first["text"], first["tokens"], first["failure"]) == ("one", 3, None)
    assert second["reward"] is None and second["failure"]


def test_a_transcript_that_keeps_one_rollout_hides_no_other(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"schema": 1, "steps": 2}))
    (tmp_path / "metrics.jsonl").write_text("")
    group = {"step": 1, "prompt": "a:1", "category": "", "rewards": [1.0, 0.0, 0.5]}
    group |= {"tokens": [3, 4, 5], "failed": 1}
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(group) + "\n")
    head = {"step": 1, "prompt": "a:1", "category": "", "messages": [], "n": 4}
    said = [{"role": "assistant", "content": "yes"}]
    row = {"rollout": 0, "messages": said, "reward": 1.0, "tokens": 3, "truncated": False}
    Transcripts(tmp_path).append("train", head, [{**row, "failure": None, "parts": {}}])
    rows = metis.load(tmp_path).rollouts
    assert [each["reward"] for each in rows] == [1.0, 0.0, 0.5, None]
    assert [each["answer"] for each in rows] == ["yes", None, None, None]


def test_transcripts_are_read_before_the_log_of_the_groups(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"schema": 1, "steps": 2}))
    (tmp_path / "metrics.jsonl").write_text("")
    counted = {"category": "c", "rewards": [0.0], "tokens": [2], "failed": 0}
    groups = [{"step": step, "prompt": "a:1", **counted} for step in (1, 2)]
    log = "".join(f"{json.dumps(group)}\n" for group in groups)
    (tmp_path / "rollouts.jsonl").write_text(log)
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one?"}]
    head = {"step": 2, "prompt": "a:1", "category": "c", "messages": asked, "n": 2}
    turns = ["guess", "lower", "3"]
    said = [
        {"role": role, "content": text}
        for role, text in zip(("assistant", "user", "assistant"), turns, strict=True)
    ]
    row = {"messages": said, "tokens": 9, "truncated": True, "trained": True}
    right = {"rollout": 0, "reward": 1.0, "parts": {"words": 2}, "failure": None, **row}
    failed = {"rollout": 1, "reward": None, "parts": {}, "failure": "TypeError", **row}
    Transcripts(tmp_path).append("train", head, [right, failed])
    first, *others = metis.load(tmp_path).rollouts
    assert (first["step"], first["reward"], first["answer"]) == (1, 0.0, None)
    assert [row["step"] for row in others] == [2, 2] and flat(others)
    assert [row["answer"] for row in others] == ["3", "3"] and others[0]["text"] == "one?"
    assert [row["turns"] for row in others] == [2, 2] and others[0]["reward/words"] == 2
    assert [row["failure"] for row in others] == [None, "TypeError"]


def test_a_survey_is_what_the_command_makes(survey, tmp_path):
    from metis.cli import main

    words = ["engine=simulated", "batch=4", "group=4", "evaluate=2", "--prompts", "24", "--no-step"]
    assert main(["survey", *words, "--out", str(tmp_path / "s")]) == 0
    for name in ("config.json", "outcomes.jsonl", "survey.md"):
        assert (tmp_path / "s" / name).read_bytes() == (survey.path / name).read_bytes()
    assert flat(survey.outcomes) and len(survey.outcomes) == 24
    assert flat(survey.rollouts) and len(survey.rollouts) == 96
    assert survey.page.startswith("# Survey")


def test_a_comparison_trains_and_reads(comparison):
    assert list(comparison.runs) == ["uniform-0", "bold-0"]
    assert comparison.runs["bold-0"].config["curriculum"]["explore"] == 0.5
    assert flat(comparison.table) and [row["variant"] for row in comparison.table] == [
        "uniform",
        "bold",
    ]
    assert all(row["finished"] and row["accuracy/last"] > 0 for row in comparison.table)
    assert "bold" in comparison.page and comparison.report().exists()
    again = metis.compare(out=comparison.path, show=False)
    assert again.table == comparison.table


def test_a_comparison_refuses_what_its_processes_would_not_have(tmp_path):
    given = {"curricula": "uniform,metis", "out": tmp_path / "c", "show": False}
    rows = [{"problem": f"{n} + 1", "answer": n + 1} for n in range(9)]
    with pytest.raises(MetisError, match=r"task.reward = .*at the top level of a file"):
        metis.compare(data=rows, reward=lambda reply: 1.0, **given)
    assert list(tmp_path.iterdir()) == []


def test_folders_are_opened_as_what_they_are(run, survey, comparison, tmp_path):
    again = metis.load(run.path)
    assert (again.config, again.finished, again.metrics) == (run.config, True, run.metrics)
    assert isinstance(metis.load(survey.path), SurveyResult)
    assert isinstance(metis.load(str(comparison.path)), ComparisonResult)
    for name, said in (("gone", "there is no such folder"), ("", "has no config.json")):
        with pytest.raises(MetisError, match=said):
            metis.load(tmp_path / name)


def test_a_repr_is_a_line(run, survey, comparison):
    tests = [row["eval/accuracy"] for row in run.metrics if "eval/accuracy" in row]
    ends = f"{tests[0]:.2f} → {tests[-1]:.2f}"
    assert repr(run) == f"<run {run.path}: 4 steps, held-out accuracy {ends}, 64 rollouts>"
    assert repr(survey).startswith(f"<survey {survey.path}: 24 prompts, informative ")
    assert repr(comparison) == (
        f"<comparison {comparison.path}: variants uniform, bold, seeds 0, finished 2 of 2 runs>"
    )


def test_results_are_shown_as_a_table_with_nothing_of_theirs_as_markup(run):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(run)
    assert "64" in console.export_text() and "a<b>" in run.title
    html = run._repr_html_()
    assert "a&lt;b&gt;" in html and "<b>" not in html and "<td>64</td>" in html


def test_a_folder_that_is_gone_still_has_a_repr(tmp_path):
    gone = metis.TrainedRun(tmp_path / "gone", {}, False)
    assert "there is no such folder" in repr(gone)


@pytest.mark.parametrize(
    ("call", "command", "words", "renamed"),
    [
        (metis.survey, surveying, ["survey"], {"step": "no_step"}),
        (metis.judge, ranking, ["judge", "m", "p"], {}),
        (metis.compare, comparing, ["compare", "--out", "c"], {"variants": "variant"}),
        (metis.evaluate, evaluating, ["eval", "m"], {}),
    ],
)
def test_a_call_has_the_options_and_the_defaults_of_its_command(call, command, words, renamed):
    parser = ArgumentParser()
    command.add(parser.add_subparsers())
    options = vars(parser.parse_args(words))
    parameters = inspect.signature(call).parameters
    given = {"out", "settings", *(("model", "prompts") if call is metis.judge else ("subject",))}
    ours = {name: item.default for name, item in parameters.items() if name not in given}
    if call is metis.evaluate:
        from metis.library.evaluating import OPTIONS

        ours |= OPTIONS
    names = {renamed.get(name, name) for name in ours}
    assert options.keys() - {*given, "run"} <= names
    for name in ours.keys() & options.keys():
        assert (ours[name] or None) == (options[name] or None), name
