"""The code task: embedded problems or a file's, none both trained and tested on."""

import json

import pytest

from metis.errors import MetisError, MissingData
from metis.tasks.base import scorers
from metis.tasks.code import records
from metis.tasks.code.problem import Problem
from metis.tasks.code.task import Code, CodeTask, limited
from metis.tasks.code.tests import Asserts, Call, Io, Limits, Script
from programmed import answer
from sandboxed import needs_bubblewrap


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def sums(count=6):
    return [
        {
            "id": f"s{k}",
            "problem": f"Add {k} to a number.\n\nInput\nOne number.",
            "tests": [{"stdin": f"{n}\n", "expected": f"{n + k}\n"} for n in range(3)],
            "category": "sums",
            "difficulty": k,
        }
        for k in range(count)
    ]


def test_the_embedded_set_is_split_by_the_seed():
    task, again, other = (CodeTask(Code(heldout=10), seed) for seed in (0, 0, 1))
    assert len(task.training()) == 56 and len(task.heldout()) == 10
    assert not {p.id for p in task.training()} & {p.id for p in task.heldout()}
    assert task.heldout() == again.heldout() != other.heldout()
    assert task.rewards == "continuous"
    assert task.scorer.endswith("tests passed, at most 10 CPU seconds a test")
    other = CodeTask(Code(checkers=False, seconds=2.5), 0)
    assert other.scorer.endswith("2.5 CPU seconds a test, outputs compared word by word")


def test_problems_of_one_s_own(tmp_path):
    task = CodeTask(Code(path=lines(tmp_path / "mine.jsonl", sums()), heldout=2), 0)
    prompts = {prompt.id: prompt for prompt in (*task.training(), *task.heldout())}
    assert set(prompts) == {f"mine:s{k}" for k in range(6)}
    first = prompts["mine:s3"]
    assert (first.text, first.category, first.difficulty) == ("Add 3 to a number.", "sums", 3.0)
    assert "One number." in task.episode(first).chat[0]["content"]


def test_another_file_to_test_on_is_not_trained_on(tmp_path):
    training = lines(tmp_path / "a.jsonl", sums())
    (tmp_path / "b").mkdir()
    tested = lines(tmp_path / "b" / "a.jsonl", sums(2))
    task = CodeTask(Code(path=training, heldout_path=tested, heldout=0), 0)
    assert sorted(p.id for p in task.training()) == [f"a:s{k}" for k in range(2, 6)]
    assert sorted(p.id for p in task.heldout()) == ["a:s0", "a:s1"]


@pytest.mark.parametrize(
    ("row", "flaw"),
    [
        ({"problem": "x", "tests": []}, "no tests"),
        ({"problem": "x"}, "KeyError: 'tests'"),
        ({"tests": [{"stdin": "", "expected": ""}]}, "KeyError: 'problem'"),
        ({"problem": "x", "tests": [{"stdin": "1"}]}, "KeyError: 'expected'"),
        (
            {"problem": "x", "tests": [{"function": "f", "arguments": "(", "expected": "1"}]},
            r"'\('",
        ),
    ],
)
def test_a_row_without_a_problem_or_tests_is_refused(tmp_path, row, flaw):
    path = lines(tmp_path / "bad.jsonl", [*sums(1), row])
    with pytest.raises(MetisError, match=rf"bad\.jsonl', row 2: .*{flaw}"):
        CodeTask(Code(path=path, heldout=1), 0)


def test_limits_out_of_bounds_are_refused_with_their_row(tmp_path):
    row = {"problem": "x", "tests": [{"stdin": "", "expected": ""}], "limits": {"memory_mb": 1}}
    path = lines(tmp_path / "bad.jsonl", [*sums(1), row])
    with pytest.raises(MetisError, match=r"bad\.jsonl', row 2: .*memory_mb = 1: use at least"):
        CodeTask(Code(path=str(path), heldout=1), 0)


def test_a_second_id_a_missing_file_and_too_many_to_test_on_are_refused(tmp_path):
    path = lines(tmp_path / "twice.jsonl", [*sums(1), *sums(1)])
    with pytest.raises(MetisError, match="row 2: a second 'twice:s0'"):
        CodeTask(Code(path=path), 0)
    with pytest.raises(MissingData, match="metis prepare code"):
        CodeTask(Code(path=str(tmp_path / "none.parquet")), 0)
    with pytest.raises(MetisError, match=r"task.heldout = 66: 0 problems are left to train on"):
        CodeTask(Code(heldout=66), 0)


@pytest.mark.parametrize(
    ("knobs", "flaw"),
    [({"heldout": 0}, "task.heldout"), ({"seconds": 0}, "task.seconds"), ({"workers": -1}, "task")],
)
def test_bad_settings_are_refused(knobs, flaw):
    with pytest.raises(MetisError, match=flaw):
        Code(**knobs)


def test_seconds_bound_every_test():
    problem = Problem("p", "x", (Io("", ""),), limits=Limits(cpu_seconds=8, wall_seconds=20))
    short = limited(problem, 2.0).limits
    assert (short.cpu_seconds, short.wall_seconds) == (2.0, 5.0)
    assert limited(problem, 9.0) is problem


def test_a_problem_survives_being_written():
    tests = (
        Io("1\n", "2\n"),
        Call("f", ((1, 2), {3}, None), {"a": (1,)}),
        Asserts("assert f(1) == 2", ("f",)),
        Script("class T: ...", "T.test_1"),
    )
    problem = Problem("p", "Do it.", tests, before="import os", reference="def f(): ...")
    record = records.loads(records.written(problem))
    assert records.read("p", "Do it.", record) == problem


@needs_bubblewrap
def test_answers_earn_the_fraction_of_tests_they_pass(tmp_path):
    task = CodeTask(Code(path=lines(tmp_path / "mine.jsonl", sums()), heldout=2, workers=1), 0)
    assert scorers(task) == 1
    prompt = next(p for p in (*task.training(), *task.heldout()) if p.id == "mine:s2")

    def earned(text):
        episode = task.episode(prompt)
        episode.reply(text)
        return episode.reward()

    assert earned(answer("print(int(input()) + 2)"))["score"] == 1.0
    partly = earned(answer("print(max(3, int(input()) + 2))"))
    assert partly["score"] == pytest.approx(2 / 3) and partly["all_passed"] == 0.0
    assert earned("I do not know.") == {
        **{"score": 0.0, "all_passed": 0.0, "no_code": 1.0},
        **{"timeouts": 0.0, "rescored": 0.0},
    }
    assert earned(answer("raise SystemExit(0)"))["score"] == 0.0
