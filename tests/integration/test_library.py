"""Rows and functions of a Python process on a tiny model: trained, resumed, evaluated."""

import shutil

import pytest

pytest.importorskip("torch")

import metis
from metis import MetisError
from metis.cli import main
from metis.core import in_memory

ROWS = [{"problem": f"{n} + {n}", "answer": 2 * n} for n in range(20)]
GIVEN = {
    "engine": {"max_tokens": 6},
    "curriculum": "uniform",
    "batch": 2,
    "group": 2,
    "evaluate": 0,
    "show": False,
}


def scorer(limit):
    def score(reply, reference, row):
        assert reference == row["answer"]
        return {"score": float(len(reply) < limit), "length": len(reply)}

    return score


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "sums"
    return metis.train(model=tiny, data=ROWS, reward=scorer(12), steps=1, out=out, **GIVEN)


def test_rows_and_a_closure_are_trained_on(run):
    assert run.finished and run.config["task"]["path"] == str(run.path / "data.jsonl")
    assert in_memory.is_in_memory(run.config["task"]["reward"])
    rows = run.rollouts
    assert len(rows) == 4 and all(row["reward/length"] >= 0 for row in rows)
    problems = {row["problem"] for row in ROWS}
    assert {row["text"] for row in rows} <= problems and all(row["answer"] for row in rows)
    assert {row["text"] for row in run.prompts} <= problems
    assert all(row["truncated"] in (True, False) for row in rows + run.validations)


def test_the_same_call_goes_on_and_another_function_is_refused(run, tiny):
    given = {"model": tiny, "data": ROWS, "out": run.path, **GIVEN}
    longer = metis.train(reward=scorer(12), steps=2, **given)
    assert [row["step"] for row in longer.metrics] == [0, 1, 2]
    with pytest.raises(MetisError, match=r"holds a run with task.reward"):
        metis.train(reward=scorer(13), steps=3, **given)
    with pytest.raises(MetisError, match="has other data"):
        metis.train(reward=scorer(12), steps=3, **{**given, "data": ROWS[:9]})


def test_an_evaluation_has_the_function_or_says_how_to_give_it(run, tmp_path, capsys, monkeypatch):
    there = metis.evaluate(run, out=tmp_path / "a", show=False)
    assert capsys.readouterr().out == ""
    assert 0 <= there.accuracy <= 1 and len(there.answers) == 4
    assert repr(there).startswith(f"<evaluation {tmp_path / 'a'}: model sums ")
    assert metis.load(tmp_path / "a").answers == there.answers
    monkeypatch.setattr(in_memory, "_FUNCTIONS", {})
    assert main(["eval", str(run.path)]) == 2
    said = capsys.readouterr().err
    assert "reward=score" in said and "task.reward=path/to/file.py:score" in said
    assert main(["train", f"{run.path}/config.json", "--out", str(run.path)]) == 2
    assert "reward=score" in capsys.readouterr().err
    again = metis.evaluate(run.path, reward=scorer(12), out=tmp_path / "b", show=False)
    assert again.answers == there.answers and again.accuracy == there.accuracy
    with pytest.raises(MetisError, match="did you mean 'device'"):
        metis.evaluate(run, devise="cpu")


def test_the_data_of_a_run_move_with_its_folder(run, tmp_path, monkeypatch):
    shutil.copytree(run.path, tmp_path / "moved")
    config = (tmp_path / "moved/config.json").read_text()
    elsewhere = config.replace(str(run.path), str(tmp_path / "gone"))
    (tmp_path / "moved/config.json").write_text(elsewhere)
    there = metis.evaluate(tmp_path / "moved", out=tmp_path / "a", show=False)
    assert [row["problem"].partition(":")[0] for row in there.answers] == ["data"] * 4


def test_rows_may_be_surveyed(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = {"model": tiny, "data": ROWS, "reward": scorer(12), "prompts": 4, "step": False}
    survey = metis.survey(**given, **GIVEN)
    assert survey.path.parent.name == "surveys" and len(survey.outcomes) == 4
    assert metis.survey(**given, **GIVEN).outcomes == survey.outcomes
    assert capsys.readouterr().out == ""
    assert len(survey.rollouts) == 8 and all(row["answer"] for row in survey.rollouts)


def test_verl_is_given_no_function_of_this_process(tmp_path):
    given = {"data": ROWS, "reward": scorer(12), "out": tmp_path / "run", **GIVEN}
    with pytest.raises(MetisError, match=r"<memory>:score-.*engine = 'verl'.*path/to/file.py"):
        metis.train(**{**given, "engine": {"name": "verl", "model": "tiny"}})
    assert list(tmp_path.iterdir()) == []
