"""Benchmarks are found by name or path, complete or not at all."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import made_up_problems
import skips
from metis.data import parquet
from metis.data.math_sets import SETS
from metis.errors import MetisError
from metis.tasks.arithmetic import Arithmetic
from metis.tasks.benchmarks.catalogue import SUITES, Manner, data_folder, load
from metis.tasks.file import File
from metis.tasks.math import INSTRUCTION, Math, wrap

EXACT = "mathematics: the last box, exact after normalisation"
REAL = os.environ.get("METIS_DATA")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("METIS_DATA", raising=False)
    return tmp_path


def math(**knobs):
    return Math("other.jsonl", **{"verify": False, **knobs})


def aime(path, count=30):
    rows = [{"problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(count)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_a_file_is_a_benchmark(tmp_path):
    [found] = load([str(made_up_problems.write(tmp_path / "mine.jsonl"))])
    assert (found.name, found.title, len(found.prompts)) == ("mine", "mine", 20)
    first = found.openings[0]
    assert found.prompts[0].id == "mine:p0" and first.reference == "12"
    assert first.chat == wrap("What is $7 + 5$?")
    assert (found.instruction, found.scorer) == (INSTRUCTION, EXACT)
    [other] = load(["mine.jsonl"], manner=Manner.of(math(instruction="Be brief.")))
    assert other.openings[0].chat[0]["content"].endswith("Be brief.")
    assert other.digest != found.digest and other.instruction == "Be brief."


def scored(found, reply, place=0):
    episode = found.task.episode(found.prompts[place])
    episode.reply(reply)
    return episode.reward()


def test_a_file_is_asked_and_scored_as_a_task_of_files_says(tmp_path):
    made_up_problems.write(tmp_path / "mine.jsonl")
    aime(tmp_path / "aime24.jsonl")
    told = File("other.jsonl", match="number", instruction="Just the number.")
    mine, known = load(["mine.jsonl", "aime24.jsonl"], manner=Manner.of(told))
    assert (mine.instruction, known.instruction) == ("Just the number.", INSTRUCTION)
    assert mine.scorer == "the last number equals the answer (task.match=number)"
    assert known.scorer == EXACT
    assert scored(mine, "7 + 5 = 12") == 1.0 and scored(known, "0 + 1 = 1") == 0.0
    assert [len(mine.prompts), mine.task.training()] == [20, []]
    (tmp_path / "fields.jsonl").write_text('{"q": "One?", "a": "1"}\n')
    fields = replace(told, problem="q", answer="a")
    assert scored(load(["fields.jsonl"], manner=Manner.of(fields))[0], "1") == 1.0
    with pytest.raises(MetisError, match="no field 'q', only id, problem, answer; set task"):
        load(["mine.jsonl"], manner=Manner.of(fields))


def test_a_task_of_mathematics_says_it_of_files_and_of_benchmarks(tmp_path):
    pytest.importorskip("math_verify")
    (tmp_path / "fields.jsonl").write_text('{"q": "One?", "a": "1"}\n')
    aime(tmp_path / "aime24.jsonl")
    told = math(problem="q", answer="a", instruction="Box it.", verify=True, verify_limit=0.5)
    manner = Manner.of(told)
    for found in load(["fields.jsonl", "aime24.jsonl"], manner=manner):
        assert found.instruction == "Box it." and found.task.verifier is manner.verifier
        assert found.scorer == "mathematics: the last box, by math-verify within 0.5 s"
    [plain] = load(["fields.jsonl"], manner=Manner.of(told, verify=False))
    assert plain.scorer == EXACT


def test_a_task_that_reads_no_files_leaves_them_to_mathematics(tmp_path):
    made_up_problems.write(tmp_path / "mine.jsonl")
    [found] = load(["mine.jsonl"], manner=Manner.of(Arithmetic(instruction="Just the number.")))
    assert (found.instruction, found.scorer) == (INSTRUCTION, EXACT)


def test_a_name_is_looked_for_in_the_data_folder(tmp_path, monkeypatch):
    assert data_folder() == Path("data/math")
    monkeypatch.setenv("METIS_DATA", str(tmp_path))
    aime(tmp_path / "aime24.jsonl")
    aime(tmp_path / "aime25.jsonl")
    assert [found.title for found in load(["aime25", "aime24", "aime25"])] == ["AIME25", "AIME24"]


@pytest.mark.parametrize("count", [29, 31])
def test_half_a_file_is_refused(tmp_path, count):
    aime(tmp_path / "aime24.jsonl", count)
    with pytest.raises(MetisError, match=f"aime24.jsonl'?: {count} different problems, not 30"):
        load(["aime24"], tmp_path)
    with pytest.raises(MetisError, match=rf"{count} different problems, not 30.* --limit"):
        load(["aime24.jsonl"])


def test_a_file_is_known_as_a_benchmark_by_its_name_or_by_what_it_was_prepared_as(tmp_path):
    pytest.importorskip("pyarrow")
    aime(tmp_path / "aime25.jsonl")
    aime(tmp_path / "minerva_math.jsonl", 272)
    rows = [
        {
            "data_source": "metis/minerva",
            "prompt": wrap(f"What is {i} + 1?"),
            "reward_model": {"ground_truth": str(i + 1)},
            "extra_info": {"id": f"minerva:{i}", "problem": f"What is {i} + 1?"},
        }
        for i in range(272)
    ]
    parquet.write(tmp_path / "mine.parquet", rows, {})
    parquet.write(tmp_path / "half.parquet", rows[:100], {})
    for file, name, title in (
        ("aime25.jsonl", "aime25", "AIME25"),
        ("minerva_math.jsonl", "minerva", "Minerva"),
        ("mine.parquet", "minerva", "Minerva"),
    ):
        [found] = load([file])
        beside = "numeric" if name == "minerva" else ""
        assert (found.name, found.title, found.beside) == (name, title, beside)
    with pytest.raises(MetisError, match=r"benchmark minerva = .*: 100 different .*, not 272"):
        load(["half.parquet"])


def test_other_fields_are_told_with_a_way_out_that_there_is(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"question": "q", "answer": "1"}\n')
    with pytest.raises(MetisError, match="no field 'problem', only question, answer; set task"):
        load(["mine.jsonl"])
    (tmp_path / "aime24.jsonl").write_text('{"question": "q", "answer": "1"}\n')
    with pytest.raises(MetisError, match="no field 'problem', only question, answer; a b"):
        load(["aime24.jsonl"])


def test_what_is_not_there_is_named(tmp_path):
    aime(tmp_path / "aime24.jsonl")
    aime(tmp_path / "aime25.jsonl")
    with pytest.raises(
        MetisError, match=r"benchmark math500: .* `metis prepare math math500 --out "
    ):
        load(["math"], tmp_path)
    with pytest.raises(MetisError, match=r"--suite 'maths': there are heldout, math, aime24"):
        load(["maths"])
    with pytest.raises(MetisError, match="no such file"):
        load(["none.jsonl"])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(MetisError, match=r"benchmark empty = 'empty.jsonl' is empty"):
        load(["empty.jsonl"])
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(MetisError, match="a folder; name a file in it"):
        load(["folder.jsonl"])
    (tmp_path / "sub").mkdir()
    made_up_problems.write(tmp_path / "mine.jsonl")
    made_up_problems.write(tmp_path / "sub/mine.jsonl")
    with pytest.raises(MetisError, match="two benchmarks are called 'mine'"):
        load(["mine.jsonl", "sub/mine.jsonl"])


def test_a_prepared_file_says_how_it_is_asked(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [
        {
            "data_source": "mine",
            "prompt": [{"role": "user", "content": f"{problem} Box it."}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"id": f"mine:{i}", "problem": problem, "category": ""},
        }
        for i, (problem, answer) in enumerate(made_up_problems.PROBLEMS)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "mine.parquet")
    [found] = load(["mine.parquet"])
    assert found.openings[3].chat[0]["content"] == "Simplify $\\frac{18}{24}$. Box it."
    assert found.prompts[3].id == "mine:3" and found.instruction == "Box it."


def test_a_sample_is_drawn_by_the_seed_in_the_file_s_order(tmp_path):
    [found] = load([str(made_up_problems.write(tmp_path / "mine.jsonl"))])
    few = found.sample(5, seed=1)
    assert few == found.sample(5, seed=1) != found.sample(5, seed=2)
    places = [found.prompts.index(prompt) for prompt in few.prompts]
    assert places == sorted(places) and len(places) == 5
    assert found.sample(0, 1) is found and found.sample(99, 1) is found


@pytest.mark.parametrize("name", SUITES["math"])
def test_the_real_files_are_complete(name):
    if REAL is None:
        pytest.skip(skips.DATA)
    [found] = load([name], Path(REAL))
    assert len(found.prompts) == SETS[name].size
