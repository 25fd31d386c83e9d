"""`metis prepare code`: filtered, counted, streamed, and read again as it was."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")

import pyarrow
from pyarrow import parquet

import published_rows as published
from metis.cli import main
from metis.data.sources import Hub
from metis.errors import MetisError
from metis.prepare.code import SETS, prepare, understand
from metis.tasks.code.published import codecontests
from metis.tasks.code.task import Code, CodeTask, read_problems, without_checkers

CONTESTS = [
    *(published.codecontests(id=str(k), description=f"Add {k}.") for k in range(5)),
    published.codecontests(id="again", description="Add 0."),
    published.codecontests(id="figure", description="See the picture."),
    published.codecontests(id="large", test_cases=[{"input": "", "output": ""}] * 30),
    published.codecontests(id="cpp", correct_submissions=[{"code": "x", "language": "cpp"}]),
]


@pytest.fixture
def contests(tmp_path):
    path = tmp_path / "part.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(CONTESTS), path, row_group_size=4)
    return path


@pytest.fixture
def out(tmp_path, contests):
    prepare(understand([f"codecontests={contests}"]), tmp_path / "o")
    return tmp_path / "o"


def test_rows_are_filtered_and_counted(tmp_path, contests, capsys):
    out = tmp_path / "o"
    assert main(["prepare", "code", f"codecontests={contests}", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "codecontests: 9 rows, 5 problems" in said
    for line in ("1  repeats another", "1  figure", "1  too many tests", "1  no Python reference"):
        assert line in said
    assert "licence: CC-BY-4.0" in said and "5 problems written; the paper has 4,432" in said
    dropped = (out / "codecontests.dropped.jsonl").read_text().splitlines()
    assert {json.loads(line)["id"] for line in dropped} == {"again", "figure", "large", "cpp"}


def test_the_columns_are_verl_s(out):
    first = parquet.read_table(out / "codecontests.parquet").to_pylist()[0]
    assert (first["data_source"], first["ability"]) == ("metis/codecontests", "CODE")
    assert first["prompt"][0]["content"].startswith("Add 0.\n\nWrite a Python program")
    about = first["extra_info"]
    assert (about["id"], about["split"], about["problem"]) == (
        *("codecontests:codeforces/0", "train", "Add 0."),
    )
    record = json.loads(first["reward_model"]["ground_truth"])
    assert record["tests"][0] == {"stdin": "1 2\n", "expected": "3\n"} and record["checker"]


def test_a_prepared_problem_is_read_as_it_was(out):
    found = read_problems(str(out / "codecontests.parquet"), "task.path")
    assert [entry.whole() for entry in found[3:]] == [
        problem_with_view(codecontests.problem(row)) for row in CONTESTS[3:5]
    ]
    assert found[0].chat()[0]["content"].endswith("```python block.")
    assert found[0].chat("Be brief.")[0]["content"] == "Add 0.\n\nBe brief."


def problem_with_view(problem):
    return replace(problem, view=problem.prompt.text)


def test_a_prepared_file_is_trained_on(out):
    task = CodeTask(Code(path=str(out / "codecontests.parquet"), heldout=2), 0)
    assert len(task.training()) == 3
    problem = task.problem(task.training()[0].id)
    assert all(test.checker for test in problem.tests)
    assert all(test.checker is None for test in without_checkers(problem).tests)


def test_what_is_there_is_left_alone(out, contests, capsys):
    before = (out / "codecontests.parquet").stat().st_mtime_ns
    [again] = prepare(understand([f"codecontests={contests}"]), out)
    assert not again.fresh and again.written == 5
    assert (out / "codecontests.parquet").stat().st_mtime_ns == before
    (out / "mbpp.parquet").write_bytes(b"mine")
    with pytest.raises(MetisError, match="not a file that was prepared here"):
        prepare(understand([f"mbpp={contests}"]), out)


def test_benchmarks_keep_every_row(tmp_path):
    path = tmp_path / "humaneval.jsonl"
    path.write_text(f"{json.dumps(published.HUMANEVAL)}\n" * 2)
    [outcome] = prepare(understand([f"humaneval={path}"]), tmp_path / "o")
    assert (outcome.rows, outcome.written, outcome.dropped) == (2, 2, {})
    assert not (tmp_path / "o" / "humaneval.dropped.jsonl").exists()


def test_rows_that_cannot_be_read_are_told_from_another_file(tmp_path):
    path = tmp_path / "lcb.jsonl"
    good = published.livecodebench(published.packed([]))
    path.write_text(f"{json.dumps(good)}\n{json.dumps({**good, 'private_test_cases': '!'})}\n")
    [outcome] = prepare(understand([f"livecodebench={path}"]), tmp_path / "o")
    assert (outcome.written, outcome.dropped) == (1, {"cannot be read": 1})
    path.write_text('{"question": "x"}\n')
    with pytest.raises(MetisError, match=r"row 1: no field '.*', only question"):
        prepare(understand([f"livecodebench={path}"]), tmp_path / "p")
    assert not (tmp_path / "p" / "livecodebench.parquet").exists()


def test_words_are_understood_or_refused(tmp_path):
    assert set(understand([])) == set(SETS)
    assert all(isinstance(source, Hub) for source in understand([]).values())
    assert len(understand(["codecontests"])["codecontests"].files) == 20
    with pytest.raises(MetisError, match="'codecontest': the sets are codecontests, livecodeb"):
        understand(["codecontest"])
    with pytest.raises(MetisError, match="no such file"):
        understand([f"mbpp={tmp_path / 'none.jsonl'}"])
