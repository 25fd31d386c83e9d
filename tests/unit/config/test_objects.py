"""Python objects as settings: classes, instances and functions, in a run that can be resumed."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import metis
from metis import MetisError
from metis.config.objects import as_settings
from metis.curricula.uniform import Uniform

HERE = __name__
SMALL = {"engine": "simulated", "evaluate": 2, "show": False}


@dataclass
class Depth:
    levels: int = 2


@dataclass
class Task:
    size: int = 3
    depth: Depth = field(default_factory=Depth)
    made: object = field(init=False, default_factory=object)


@dataclass
class Mine(Uniform):
    sharpness: float = 1.0


def score(reply):
    return 0.5


def test_objects_are_written_by_their_names_and_knobs():
    assert as_settings({"task": Task(5), "steps": 3}) == {
        "task": {"name": f"{HERE}:Task", "size": 5, "depth": {"levels": 2}},
        "steps": 3,
    }
    assert as_settings({"task": Task, "curriculum": Uniform}) == {
        "task": {"name": f"{HERE}:Task"},
        "curriculum": {"name": "uniform"},
    }
    given = {"name": "file", "reward": score, "path": Path("a.jsonl")}
    assert as_settings({"task": given})["task"] == {**given, "reward": f"{HERE}:score"}
    assert as_settings({"task": {"name": Task, "size": 4}})["task"] == {
        "name": f"{HERE}:Task",
        "size": 4,
    }
    assert as_settings({"task": "gym", "curriculum": "dapo"}) == {
        "task": "gym",
        "curriculum": "dapo",
    }


def test_a_curriculum_brings_its_sizes_and_its_preset():
    paper = as_settings({"curriculum": metis.curriculum("metis", preset="paper", batch=4, group=2)})
    assert (paper["batch"], paper["group"]) == (4, 2)
    assert (paper["curriculum"]["name"], paper["curriculum"]["preset"]) == ("metis", "paper")
    assert "batch" not in paper["curriculum"]
    usual = as_settings({"curriculum": metis.curriculum("metis", explore=0.3)})["curriculum"]
    assert (usual["preset"], usual["explore"]) == ("recommended", 0.3)
    with pytest.raises(MetisError, match="batch = 8: the curriculum has 4; set it once"):
        as_settings({"curriculum": Mine(batch=4), "batch": 8})


def test_what_has_no_name_is_refused():
    with pytest.raises(MetisError, match=r"task = <object .*: a run is rebuilt from its sett"):
        as_settings({"task": object()})
    with pytest.raises(MetisError, match=r"task.knob = <function .*top level of a module"):
        as_settings({"task": {"name": "my.py:Task", "knob": lambda reply: 1.0}})


def test_a_run_of_one_s_own_curriculum_is_resumed(tmp_path):
    given = {**SMALL, "curriculum": Mine(batch=4, group=4, sharpness=2.0)}
    run = metis.train(out=tmp_path / "run", steps=2, **given)
    assert run.config["curriculum"] == {"name": f"{HERE}:Mine", "sharpness": 2.0}
    assert (run.config["batch"], run.config["group"]) == (4, 4)
    before = run.metrics
    assert metis.train(out=tmp_path / "run", steps=3, **given).metrics[:3] == before
    with pytest.raises(MetisError, match=r"curriculum.sharpness = 2.0, not 3.0"):
        metis.train(
            out=tmp_path / "run", steps=3, **{**given, "curriculum": Mine(4, 4, sharpness=3.0)}
        )
    assert json.loads((tmp_path / "run/config.json").read_text())["steps"] == 3
