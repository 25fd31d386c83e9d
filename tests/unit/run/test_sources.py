"""A run that is resumed notices that its problems, or a user's own code, have changed."""

import json

import pytest

from metis.cli import main
from metis.errors import MetisError
from metis.run import sources

CURRICULUM = """
from metis.curricula import CURRICULA

class Mine(CURRICULA["uniform"]):
    pass
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("reward", "task", "curriculum"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    task = {"name": "task.py:Mine", "reward": "reward.py:score"}
    return {"task": task, "curriculum": {"name": "curriculum.py:Mine"}}


def test_an_edited_reward_is_refused_until_it_is_confirmed(config, tmp_path):
    sources.write_sources(tmp_path, config)
    assert sources.check_sources(tmp_path, config, begun=True) == []
    (tmp_path / "reward.py").write_text("x = 2\n")
    assert sources.check_sources(tmp_path, config, begun=False) == [], (
        "nothing was trained with it yet"
    )
    with pytest.raises(MetisError, match=r"task.reward = 'reward.py:score': .*sources.json"):
        sources.check_sources(tmp_path, config, begun=True)
    (tmp_path / sources.FILE).unlink()
    assert sources.check_sources(tmp_path, config, begun=True) == []


@pytest.mark.parametrize("key", ["task", "curriculum"])
def test_other_code_is_told_of(config, tmp_path, key):
    sources.write_sources(tmp_path, config)
    (tmp_path / f"{key}.py").write_text("x = 2\n")
    [notice] = sources.check_sources(tmp_path, config, begun=True)
    assert notice.startswith(f"the file of {key} ")


@pytest.mark.parametrize("key", ["task.path", "task.heldout_path", "benchmarks"])
def test_an_answer_that_was_changed_is_refused_though_all_prompts_are_the_same(tmp_path, key):
    files = {name: tmp_path / f"{name}.jsonl" for name in ("task.path", "benchmarks")}
    files["task.heldout_path"] = tmp_path / "tests.jsonl"
    for file in files.values():
        file.write_text('{"problem": "1 + 1", "answer": 2}\n')
    paths = {"path": str(files["task.path"]), "heldout_path": str(files["task.heldout_path"])}
    config = {
        "task": {"name": "math", **paths},
        "benchmarks": ["math500", str(files["benchmarks"])],
    }
    sources.write_sources(tmp_path, config)
    assert sources.check_sources(tmp_path, config, begun=True) == []
    files[key].write_text('{"problem": "1 + 1", "answer": 3}\n')
    with pytest.raises(MetisError, match=rf"{key} = .*its file has changed.*sources\.json"):
        sources.check_sources(tmp_path, config, begun=True)


def test_code_of_the_package_and_names_have_no_digest(tmp_path):
    named = {"task": {"name": "math"}, "curriculum": {"name": "metis.curricula.dapo:Dapo"}}
    assert sources.source_digests(named) == {}
    sources.write_sources(tmp_path, named)
    assert not (tmp_path / sources.FILE).exists()


def test_a_damaged_file_is_named(config, tmp_path):
    (tmp_path / sources.FILE).write_text("{")
    with pytest.raises(MetisError, match=r"sources\.json' is damaged: delete it"):
        sources.check_sources(tmp_path, config, begun=True)


def test_a_run_says_so_when_it_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CURRICULUM)
    words = ["engine=simulated", "curriculum=mine.py:Mine", "batch=4", "--out", "run"]
    assert main(["train", *words, "steps=2"]) == 0
    assert json.loads((tmp_path / "run" / sources.FILE).read_text())["curriculum"]
    (tmp_path / "mine.py").write_text(f"{CURRICULUM}\n# changed\n")
    capsys.readouterr()
    assert main(["train", *words, "steps=3", "--dry-run"]) == 0
    assert "the file of curriculum has changed" in capsys.readouterr().err
    assert main(["train", *words, "steps=3"]) == 0
    assert "step 2: the file of curriculum has changed" in capsys.readouterr().out
    assert main(["train", *words, "steps=4"]) == 0
    assert "has changed" not in capsys.readouterr().out
