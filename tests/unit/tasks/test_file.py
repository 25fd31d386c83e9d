"""Problems of one's own: which fields are read, what earns a reward, and what is refused."""

import gzip
import json

import pytest

from metis.cli import main
from metis.errors import MetisError
from metis.tasks import math
from metis.tasks.file import File, build
from metis.tasks.math import Math

ROWS = [{"id": n, "problem": f"What is {n}?", "answer": n, "kind": {"of": n % 2}} for n in range(6)]


def written(folder, rows=ROWS, name="mine.jsonl"):
    path = folder / name
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def everything(task):
    return sorted((*task.training(), *task.heldout()), key=lambda prompt: prompt.text)


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz"])
def test_rows_are_split_by_the_seed(tmp_path, name):
    path = written(tmp_path, name=name)
    task, again, other = (build(File(path=path, heldout=2), seed) for seed in (0, 0, 1))
    assert task.training() == again.training() and task.heldout() == again.heldout()
    assert task.training() != other.training() and len(task.heldout()) == 2
    assert [prompt.id for prompt in everything(task)] == [f"mine:{n}" for n in range(6)]


def test_fields_may_lie_in_fields(tmp_path):
    nested = [{"row": row} for row in ROWS]
    path = written(tmp_path, nested)
    settings = File(
        path, "row.problem", "row.answer", category="row.kind.of", heldout=1, match="number"
    )
    for number, prompt in enumerate(everything(task := build(settings, 0))):
        assert (prompt.text, prompt.category) == (f"What is {number}?", str(number % 2))
        episode = task.episode(prompt)
        episode.reply(f"It is {number}.")
        assert episode.reward() == 1.0


def test_what_cannot_be_read_is_one_line(tmp_path):
    def refusal(**knobs):
        with pytest.raises(MetisError) as caught:
            build(File(**{"heldout": 1, **knobs}), 0)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    path = written(tmp_path)
    assert "only 6 different problems" in refusal(path=path, heldout=6)
    remedies = refusal(path=path, heldout=6)
    assert "try task.heldout=1" in remedies and "benchmarks=test.jsonl" in remedies
    assert "row 1: no field 'text', only id, problem, answer, kind" in refusal(
        path=path, problem="text"
    )
    assert "task.path = " in refusal(path="none.jsonl") and "no such file" in refusal(
        path="n.jsonl"
    )
    torn = tmp_path / "torn.jsonl"
    torn.write_text(json.dumps(ROWS[0]) + "\n" + '{"problem": "Wh')
    assert "line 2" in refusal(path=str(torn))
    unanswered = [{"problem": "1?", "answer": None}]
    assert "only 0 different problems with an answer" in refusal(path=written(tmp_path, unanswered))
    unnamed = [{"problem": "1?"}]
    assert "row 1: no field 'answer'" in refusal(path=written(tmp_path, unnamed))
    twice = [*ROWS, ROWS[0] | {"problem": "And 7?"}]
    assert "row 7: a second 'mine:0'; ids must differ" in refusal(path=written(tmp_path, twice))


def test_no_problem_is_both_trained_and_tested_on(tmp_path):
    path = written(tmp_path, [row | {"id": 6 * n + row["id"]} for n in range(5) for row in ROWS])
    task = build(File(path=path, heldout=3), 0)
    assert [prompt.id for prompt in everything(task)] == [f"mine:{n}" for n in range(6)]


def test_rows_without_a_problem_or_an_answer_are_left_out(tmp_path):
    holes = [{"problem": None, "answer": 1}, {"problem": "Why?", "answer": None}]
    holes.append({"problem": "When?", "answer": " "})
    path = written(tmp_path, [*holes, *(row | {"id": None} for row in ROWS)])
    task = build(File(path=path, heldout=1), 0)
    assert {prompt.id: prompt.text for prompt in everything(task)} == {
        f"mine:{n + 4}": f"What is {n}?" for n in range(6)
    }
    with open(path, "a") as file:
        file.write("\n")
    assert everything(build(File(path=path, heldout=1), 0)) == everything(task)


@pytest.mark.parametrize(("rows", "heldout"), [(2, 1), (6, 1), (60, 12), (999, 199), (2000, 200)])
def test_a_fifth_is_held_out_and_200_at_most(tmp_path, rows, heldout):
    path = written(tmp_path, [{"problem": f"What is {n}?", "answer": n} for n in range(rows)])
    for task in (build(File(path=path), 0), math.build(Math(path=path, verify=False), 0)):
        assert len(task.heldout()) == heldout == task.settings.heldout
        assert len(task.training()) == rows - heldout


@pytest.mark.parametrize("reader", [File, Math])
def test_rows_that_are_left_out_are_counted_by_reason(tmp_path, reader):
    rows = [{"problem": f"What is {n}?", "answer": n} for n in range(44)]
    rows += [{"problem": f"And {n}?", "answer": None} for n in range(12)]
    rows += [*rows[:4], rows[4] | {"answer": 99}]
    path = written(tmp_path, rows)
    task = build(File(path=path), 0) if reader is File else math.build(Math(path, verify=False), 0)
    [notice] = task.notices
    assert notice.startswith(f"{path}: 44 of 61 rows are used; left out are 12 without an answer, ")
    assert "5 repeated (1 with another answer" in notice
    assert not build(File(path=written(tmp_path)), 0).notices


def test_without_references_only_repetitions_count(tmp_path):
    (tmp_path / "mine.py").write_text("def score(reply):\n    return 1.0\n")
    rows = [*ROWS, ROWS[0] | {"id": 9, "answer": 3}, {"problem": "", "answer": 1}]
    reward = f"{tmp_path}/mine.py:score"
    [notice] = build(File(path=written(tmp_path, rows), reward=reward), 0).notices
    assert notice.endswith("6 of 8 rows are used; left out are 1 without a problem, 1 repeated")


def test_the_counts_are_said_before_a_run_also_beside_benchmarks(tmp_path, capsys):
    path = written(tmp_path, [*ROWS, ROWS[0]])
    for words in (["batch=2"], ["batch=2", f"benchmarks={path}"]):
        assert main(["train", "task=file", f"task.path={path}", *words, "--dry-run"]) == 0
        assert "6 of 7 rows are used" in capsys.readouterr().err
