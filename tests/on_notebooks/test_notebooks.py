"""The notebooks of `examples/` run from the first cell to the last, each in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import metis

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LAWS = ROOT / "tests/unit/curricula/test_laws.py"
PATIENCE = 1800
"""Seconds that a cell may take on a busy machine."""

# of the kernel's own libraries
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs a notebook in an empty folder; what each of its cells printed or showed."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "empty"
    folder.mkdir()

    def executed(name):
        notebook = nbformat.read(EXAMPLES / name, as_version=4)
        place = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=PATIENCE, resources=place).execute()
        monkeypatch.chdir(folder)
        return [shown(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]

    return executed


def shown(outputs):
    """All that the outputs of a cell have as text."""
    data = [part for each in outputs for part in each.get("data", {}).values()]
    text = "\n".join([each.text for each in outputs if "text" in each] + list(map(str, data)))
    assert "Traceback" not in text and "Error" not in text, text
    return text


def trained(folder, steps, heldout):
    """A run that has ended, with its rollouts and validations."""
    run = metis.load(folder)
    assert run.finished and [row["step"] for row in run.metrics] == list(range(steps + 1))
    answers = [row for row in run.rollouts if row["answer"].strip()]
    assert len(answers) > 0.9 * len(run.rollouts) == 0.9 * steps * 4 * 8
    assert len(run.validations) == 2 * heldout
    return run


def test_own_data_and_reward_are_surveyed_trained_on_and_shown(execute):
    cells = execute("own_data.ipynb")
    survey = metis.load("surveys/problems")
    assert len(survey.outcomes) == 16 and len(survey.rollouts) == 16 * 8
    assert {row["kind"] for row in survey.outcomes} >= {"informative", "all-fail"}
    uniform, selected = trained("runs/uniform", 4, 16), trained("runs/metis", 4, 16)
    assert all({"reward/words", "answer"} <= row.keys() for row in uniform.rollouts)
    judged = [row for row in selected.judgments if row["v_hat"] is not None]
    assert len(selected.judgments) == 4 * 16 and len(judged) == 3 * 16
    assert sum(row["chosen"] for row in selected.judgments) == 4 * 4
    assert {row["category"] for row in selected.prompts} == {"small", "large"}
    assert sum("rollouts: large sums" in cell for cell in cells) == 1
    assert sum("<svg" in cell for cell in cells) == 1
    assert sum("<table" in cell for cell in cells) == 3


def test_the_comparison_that_the_notebook_names_runs(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = nbformat.read(EXAMPLES / "own_data.ipynb", as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    reward = next(source for source in code if "def score" in source)
    Path("my_reward.py").write_text(f"from metis.tasks.base import last_number\n{reward}\n")
    names = {}
    for source in code[: next(i for i, each in enumerate(code) if "shared = {" in each) + 1]:
        exec(source, names)
    names["shared"] |= {"model": tiny}
    exec(next(source for source in code if "readout = {" in source).splitlines()[0], names)
    snippet = cells[-1].source.split("```python\n")[1].split("```")[0]
    assert '"steps": 100' in snippet and "range(5)" in snippet
    exec(snippet.replace('"steps": 100', '"steps": 1').replace("range(5)", "range(1)"), names)
    assert metis.load("cmp").runs.keys() == {"uniform-0", "readout-0"}


def test_own_curriculum_and_judge_run_simulated_and_on_a_model(execute):
    cells = execute("own_curriculum.ipynb")
    comparison = metis.load("cmp")
    assert len(comparison.runs) == 12 and all(run.finished for run in comparison.runs.values())
    best = {row["variant"]: [] for row in comparison.table}
    for row in comparison.table:
        best[row["variant"]].append(row["accuracy/best"])
    assert max(best["uniform"]) < min(best["again"]) and max(best["uniform"]) < min(best["nearest"])
    again, nearest = trained("runs/again", 4, 32), trained("runs/nearest", 4, 32)
    assert sum(row["select/again"] for row in again.metrics[1:]) > 0
    assert again.config["curriculum"]["name"] == "my_curriculum.py:Again"
    assert nearest.config["curriculum"]["judge"]["name"] == "my_judge.py:Nearest"
    predicted = {row["v_hat"] for row in nearest.judgments if row["step"] > 1}
    assert len(nearest.judgments) == 4 * 16 and len(predicted) > 1
    assert sum("<svg" in cell for cell in cells) == 1
    obeys_the_laws({"METIS_CURRICULUM": "my_curriculum:Again", "METIS_JUDGE": "my_judge:Nearest"})


def obeys_the_laws(own):
    """The classes in the current folder, under the tests of every curriculum."""
    path = os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])
    command = [sys.executable, "-m", "pytest", "-q", "-k", "Again or Nearest", str(LAWS)]
    environment = {**os.environ, **own, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
