"""The page about environments: what it shows of reasoning-gym trains."""

from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("reasoning_gym")

import metis
from metis.run.folder import read_log

PAGE = Path(__file__).parents[2] / "docs/environments.md"


def test_the_puzzles_of_the_page_are_trained_on(tiny, tmp_path, monkeypatch):
    code = PAGE.read_text("utf-8").split("## reasoning-gym")[1]
    code = code.split("```python\n")[1].split("```")[0]
    for there, here in (("Qwen/Qwen2.5-0.5B-Instruct", str(tiny)), ("steps=100", "steps=1")):
        assert there in code
        code = code.replace(there, here)
    monkeypatch.chdir(tmp_path)
    small = {"show": False, "batch": 2, "group": 2, "curriculum": "uniform", "evaluate": 0}
    engine = {"max_tokens": 4, "device": "cpu"}
    monkeypatch.setattr(metis, "train", partial(metis.train, **small, engine=engine))
    names = {"metis": metis}
    exec(code, names)
    rows = read_log(names["run"].path, "rollouts")
    assert len(rows) == 2 and all(row["prompt"].startswith("chain_sum:") for row in rows)
