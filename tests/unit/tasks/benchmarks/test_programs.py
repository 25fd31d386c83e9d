"""Benchmarks of programming: complete, scored by fractions, with what is missing named."""

import json
from pathlib import Path

import pytest

import published_rows as published
from metis.errors import MetisError
from metis.evals.results import markdown
from metis.prepare.code import SETS
from metis.tasks.benchmarks import programs
from metis.tasks.benchmarks.catalogue import BENCHMARKS, SUITES, Manner, data_folder, load
from metis.tasks.benchmarks.scoring import scores
from metis.tasks.code.task import Code
from programmed import answer
from sandboxed import needs_bubblewrap


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("METIS_DATA", raising=False)
    return tmp_path


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def mbpp(path, numbers):
    write(path, ({**published.MBPP, "task_id": n, "text": f"Add {n}."} for n in numbers))


def test_sizes_are_those_of_the_published_sets():
    for name in SUITES["code"]:
        assert BENCHMARKS[name].size == SETS[name].size
        assert BENCHMARKS[name].family == "code" and BENCHMARKS[name].beside == "all_passed"
    assert data_folder("code") == Path("data/code")


def test_mbpp_says_which_problems_it_has(tmp_path):
    mbpp(tmp_path / "mbpp.jsonl", range(1, 975))
    whole, test = load(["mbpp", "mbpp-test"], tmp_path)
    assert (whole.title, len(whole.prompts)) == ("MBPP (all 974)", 974)
    assert (test.title, len(test.prompts)) == ("MBPP (500 test)", 500)
    assert test.prompts[0].id == "mbpp:11" and test.prompts[-1].id == "mbpp:510"
    assert "fraction of all tests" in whole.scorer
    [by_path] = load(["mbpp.jsonl"])
    assert by_path.name == "mbpp"


def test_other_tests_are_another_benchmark(tmp_path):
    mbpp(tmp_path / "mbpp.jsonl", range(1, 975))
    [before] = load(["mbpp"], tmp_path)
    easier = {**published.MBPP, "test_list": ["assert add(1, 1)"]}
    write(
        tmp_path / "mbpp.jsonl",
        ({**easier, "task_id": n, "text": f"Add {n}."} for n in range(1, 975)),
    )
    [after] = load(["mbpp"], tmp_path)
    assert before.described != after.described


def test_a_part_of_a_benchmark_is_refused(tmp_path):
    mbpp(tmp_path / "mbpp.jsonl", range(1, 101))
    with pytest.raises(MetisError, match=r"benchmark mbpp = .*: 100 different problems, not 974"):
        load(["mbpp"], tmp_path)
    with pytest.raises(MetisError, match=r"benchmark livecodebench: .* `metis prepare code live"):
        load(["code"], tmp_path)


def test_rows_of_another_form_are_refused(tmp_path):
    write(tmp_path / "humaneval.jsonl", [{"problem": "x", "answer": "1"}])
    with pytest.raises(MetisError, match=r"row 1: not of humaneval's published form .*KeyError"):
        load(["humaneval"], tmp_path)


@needs_bubblewrap
def test_a_prepared_benchmark_is_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    from metis.prepare.code import prepare, understand

    mbpp(tmp_path / "mbpp.jsonl", range(1, 975))
    prepare(understand(["mbpp=mbpp.jsonl"]), tmp_path / "prepared")
    [raw], [prepared] = load(["mbpp"], tmp_path), load(["mbpp"], tmp_path / "prepared")
    assert raw.prompts == prepared.prompts
    assert [e.chat for e in raw.openings] == [e.chat for e in prepared.openings]
    episode = prepared.openings[0]
    episode.reply(answer("def add(a, b):\n    return 3"))
    assert episode.reward()["score"] == 0.5


@needs_bubblewrap
def test_problems_without_their_libraries_are_left_out_and_told(tmp_path):
    here = {**published.BIGCODEBENCH, "task_id": "BigCodeBench/0", "libs": "['random']"}
    for key in ("complete_prompt", "test"):
        here[key] = here[key].replace("import pandas as pd\n", "")
    gone = published.BIGCODEBENCH
    gone = {**gone, "complete_prompt": gone["complete_prompt"].replace("pandas", "no_such_one")}
    gone["libs"] = "['no_such_one']"
    write(tmp_path / "bigcodebench.jsonl", [here, gone])
    task, count, remark = programs.read_programs(
        "bigcodebench", tmp_path / "bigcodebench.jsonl", "benchmark", Code()
    )
    assert count == 2 and [p.id for p in task.heldout()] == ["bigcodebench:BigCodeBench/0"]
    assert remark.startswith("1 of 2 problems are left out: the sandbox lacks libraries that they")
    assert "(no_such_one); METIS_SANDBOX_LIBRARIES" in remark


def test_a_file_of_one_s_own_is_asked_as_a_run_s_code_task_does(tmp_path):
    row = {"problem": "Add.", "tests": [{"stdin": "1", "expected": "2"}]}
    write(tmp_path / "mine.jsonl", [row])
    [found] = load(["mine.jsonl"], manner=Manner.of(Code(instruction="Be brief.")))
    assert found.openings[0].chat[0]["content"] == "Add.\n\nBe brief."
    with pytest.raises(MetisError, match="no field 'answer'"):
        load(["mine.jsonl"])


def test_partial_credit_is_not_all_passed():
    assert scores(0.5, "", "", "all_passed") == {"faithful": 0.5, "all_passed": 0.0}
    assert scores(1.0, "", "", "all_passed") == {"faithful": 1.0, "all_passed": 1.0}
    assert scores(0.5, "", "", "") == {"faithful": 0.5}


def test_the_table_has_both_scores_and_the_remark():
    score = {"accuracy": 0.5, "stderr": 0.1}
    lower = {"accuracy": 0.25, "stderr": 0.1}
    found = {
        "name": "m",
        "temperature": 0,
        "metric": "pass@1",
        "max_tokens": 8,
        "seed": 0,
        "samples": 1,
        "average": {"faithful": score, "all_passed": lower},
        "benchmarks": {
            "bigcodebench": {
                **{"title": "BCB", "problems": 4, "cut_off": 0.0, "tokens": 3, "failed": 0},
                "scores": {"faithful": score, "all_passed": lower},
                "instruction": None,
                "scorer": "tests",
                "remark": "1 of 5 problems are left out",
            }
        },
    }
    text = markdown(found)
    assert "| 50.0 ± 10.0 |" in text and "| … all tests passed | 25.0 ± 10.0 |" in text
    assert "; 1 of 5 problems are left out" in text
