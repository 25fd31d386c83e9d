"""The code on pages of the docs runs as it is written, with a tiny model in place of a real one."""

import json
from pathlib import Path

import pytest

import metis
from metis.tasks.code.task import read_problems

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    text = (DOCS / page).read_text("utf-8")
    return [part.split("\n```")[0] for part in text.split("```python\n")[1:]]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def small(code, model):
    """With a tiny model and as much work as it takes to have something to look at."""
    for name in ('"Qwen/Qwen2.5-0.5B-Instruct"', '"smollm2-135m"'):
        code = code.replace(name, repr(str(model)))
    limits = "steps=2, batch=2, group=2, engine={'max_tokens': 4}, evaluate=1"
    return code.replace("steps=100", limits)


def test_a_run_from_python_is_trained_read_and_exported(tiny, tmp_path):
    pytest.importorskip("pandas", reason="needs pandas")
    train, read, export = blocks("commands.md")
    names = {}
    exec(small(train, tiny).replace("reward=score,", 'reward=score, task={"heldout": 4},'), names)
    assert (tmp_path / "models/sums/config.json").exists()
    exec(read, names)
    assert len(names["answers"]) == 2 * 2 * 2
    exec(export, names)
    rows = [json.loads(line) for line in (tmp_path / "sums.jsonl").read_text("utf-8").splitlines()]
    assert [row["kind"] for row in rows].count("train") == 8 and rows[0]["messages"]
    assert list((tmp_path / "logs/sums").iterdir())


def test_a_run_is_read_by_pandas(tiny, monkeypatch):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    [code] = blocks("metrics.md")
    metis.train(engine="simulated", steps=12, out="runs/a", show=False)
    drawn = []
    monkeypatch.setattr(pandas.DataFrame, "plot", lambda self, **_: drawn.append(list(self)))
    exec(code, names := {})
    assert drawn == [["batch/reward", "batch/informative", "judge/spearman"]]
    assert names["judged"].chosen.any()


def test_a_checkpoint_is_a_model_of_transformers(tiny, capsys):
    generate, export = blocks("models.md")
    rows = [{"problem": f"{a} + 1", "answer": str(a + 1)} for a in range(12)]
    Path("sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    names = {"metis": metis}
    exec(small(export, tiny).replace('"sums.jsonl"}', '"sums.jsonl", "heldout": 2}'), names)
    assert Path("models/sums/config.json").exists()
    capsys.readouterr()
    exec(generate.replace("runs/mine/checkpoints/best", str(names["run"].model)), {})
    assert capsys.readouterr().out


def test_a_ranking_is_filtered_and_scheduled():
    [code] = blocks("ranking.md")
    Path("ranked").mkdir()
    ranked = [{"row": row, "expected_pass_rate": row / 10} for row in (3, 1, 4, 2)]
    Path("ranked/ranking.jsonl").write_text("\n".join(map(json.dumps, ranked)))
    exec(code, names := {})
    assert names["rows"] == [3, 1]


def values(code):
    """The values of a block's expressions, with what the comment behind each says."""
    names, lines = {}, []
    for statement in code.split("\n"):
        expression, comment, said = statement.partition("  # ")
        if comment and not expression.startswith(("outcome =", "from ")):
            lines.append((eval(expression, names), said))
        else:
            exec(statement, names)
    return lines


def test_answers_in_mathematics_score_what_the_page_says():
    pytest.importorskip("math_verify", reason="needs math-verify")
    [code] = blocks("math.md")
    found = values(code)
    assert len(found) == 2
    for value, said in found:
        assert value == float(said.partition(",")[0])


def test_programs_score_what_the_pages_say():
    runs, _ = blocks("sandbox.md")
    assert [str(value) for value, _ in values(runs)][::2] == ["0.5", "1"]
    assert [said for _, said in values(runs)] == ["0.5", '"wrong"', "1"]
    scored, said = blocks("code.md")[0].split("  # ")
    imports, call = scored.split("\n\n")
    exec(imports, names := {})
    assert f'"score": {eval(call, names)["score"]}' in said


def test_problems_of_one_s_own_are_written_as_the_page_says():
    text = (DOCS / "code.md").read_text("utf-8").split("```json\n")[1].split("\n```")[0]
    Path("mine.jsonl").write_text(text)
    names = [problem.id for problem in read_problems("mine.jsonl", "task.path")]
    assert [name.rpartition(":")[2] for name in names] == ["sum", "double", "sort", "patch"]
