"""A class of one's own by its place: found, trained with, and refused in one line."""

import sys

import pytest

from metis import MetisError
from metis.cli import main
from metis.config import load_config
from metis.core import Prompt
from metis.core.pool import Pool
from metis.curricula.registry import curriculum_class, pool_notice
from metis.curricula.uniform import Uniform
from metis.run.folder import read_log

OWN = """
from dataclasses import dataclass, field
from metis.curricula.uniform import Uniform
from metis.core import Stateful

@dataclass
class Mine(Uniform):
    \"\"\"Mine.\"\"\"
    sharpness: float = 1.0

class Plain: pass

@dataclass
class Sizeless(Stateful):
    batch: int = 3
    def step(self, pool, progress): ...

@dataclass
class Stateless:
    batch: int = 3
    group: int = 2
    def step(self, pool, progress): ...

@dataclass
class Forgetful(Uniform):
    names: set = field(init=False, default_factory=set)

nothing = 3
"""
SHORT = ["engine=simulated", "steps=3", "batch=4", "group=2", "engine.prompts=40"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module that no other test has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_place.py").write_text(OWN)
    (tmp_path / "broken_place.py").write_text("import math\n\nmath.sqrt(-1)\n")
    (tmp_path / "needy_place.py").write_text("import a_library_that_is_not_there\n")
    yield tmp_path
    for name in ("own_place", "broken_place", "needy_place"):
        sys.modules.pop(name, None)


def test_a_name_is_a_registered_class_and_a_place_is_imported(own):
    assert curriculum_class("uniform") is Uniform
    assert curriculum_class("metis.curricula.uniform:Uniform") is Uniform
    assert curriculum_class("own_place:Mine").__name__ == "Mine"
    assert curriculum_class("own_place.py:Mine") is curriculum_class(f"{own}/own_place.py:Mine")


def test_its_knobs_are_settings_and_it_trains_and_resumes(own, capsys):
    config = load_config(None, [*SHORT, "curriculum=own_place:Mine", "curriculum.sharpness=2.5"])
    assert (config.curriculum.sharpness, config.curriculum.batch) == (2.5, 4)
    assert config.resolved["curriculum"] == {"name": "own_place:Mine", "sharpness": 2.5}
    assert main(["train", *SHORT, "curriculum=own_place:Mine"]) == 0
    (folder,) = (own / "runs").iterdir()
    assert folder.name.startswith("Mine-simulated-seed0-")
    assert len(read_log(folder, "metrics")) == 4
    assert main(["train", str(folder / "config.json"), "--out", "again"]) == 0
    assert (own / "again/metrics.jsonl").read_bytes() == (folder / "metrics.jsonl").read_bytes()
    assert main(["curricula", "own_place:Mine"]) == 0
    assert "Mine." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere_at_all:Mine", ["there is no module 'nowhere_at_all'", "PYTHONPATH"]),
        ("own_place.deeper:Mine", ["own_place.deeper"]),
        ("own_place:Yours", ["'own_place' has no 'Yours'"]),
        ("own_place:nothing", ["it is 3, not a class"]),
        ("own_place:Mine:More", ["no 'Mine:More'"]),
        ("own_place:Plain", ["Plain is not a dataclass", "Stateful"]),
        ("own_place:Sizeless", ["Sizeless has no setting 'group'"]),
        ("own_place:Stateless", ["Stateless has no method 'state_dict'"]),
        ("broken_place:Mine", ["raised ValueError: math domain error", "broken_place.py, line 3"]),
        ("needy_place:Mine", ["raised ModuleNotFoundError", "a_library_that_is_not_there"]),
        (":Mine", ["write package.module:Name"]),
        ("own_place.Mine", ["known are metis", "package.module:Name"]),
        ("nowhere/at_all.py:Mine", ["there is no file 'nowhere/at_all.py'"]),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(own, name, words):
    with pytest.raises(MetisError) as caught:
        load_config(None, [*SHORT, f"curriculum={name}"])
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"curriculum = {name!r}: ")
    for word in words:
        assert word in message


def test_an_unknown_knob_of_one_s_own_is_refused(own):
    with pytest.raises(MetisError, match=r"unknown key 'curriculum.sharpnes'.*sharpness"):
        load_config(None, [*SHORT, "curriculum=own_place:Mine", "curriculum.sharpnes=1"])


def test_state_that_cannot_be_saved_is_refused_before_the_first_step(own, capsys):
    assert main(["train", *SHORT, "curriculum=own_place:Forgetful", "--out", "run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "Forgetful: state field 'names': a set cannot be saved as state" in line
    assert not (own / "run").exists()


@pytest.mark.parametrize(
    ("curriculum", "size", "told"),
    [
        ("metis", 40, True),
        ("metis", 63, True),
        ("metis", 64, False),
        ("mopps", 40, True),
        ("dapo", 40, True),
        ("greso", 40, True),
        ("greso", 48, False),
        ("uniform", 40, False),
        ("sec", 40, False),
    ],
)
def test_a_pool_with_little_to_choose_from_has_a_notice(curriculum, size, told):
    config = load_config(None, ["engine=simulated", "batch=32", f"curriculum={curriculum}"])
    pool = Pool(Prompt(id=str(i), text=f"{i}?") for i in range(size))
    notices = pool_notice(pool, config.curriculum, 32)
    assert [f"has {size} prompts for a batch of 32" in notice for notice in notices] == (
        [True] if told else []
    )
