"""What a shell is told when it asks what may stand where its cursor is."""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from metis.config.completion import settings
from metis.curricula import CURRICULA


def offered(*words):
    *before, prefix = words
    every = settings(prefix, Namespace(settings=before))
    return [word for word in every if word.startswith(prefix)]


def test_keys_are_those_of_what_the_line_names():
    assert "engine.hardness=" in offered("engine=simulated", "engine.")
    assert "engine.lora=" in offered("engine=local", "engine.")
    assert "curriculum.explore=" in offered("curriculum=metis", "curriculum.ex")
    assert offered("curriculum=uniform", "curriculum.ex") == []
    assert "task.path=" in offered("task=file", "task.")
    assert {"curriculum.floors.prompts=", "checkpoints.every=", "steps="} <= set(offered(""))


def test_values_are_those_of_the_key():
    assert offered("curriculum=") == [f"curriculum={name}" for name in CURRICULA]
    assert offered("transcripts=") == [f"transcripts={kept}" for kept in ("all", "sample", "none")]
    assert offered("curriculum=metis", "curriculum.judge=d") == ["curriculum.judge=direct"]
    assert "curriculum.preset=paper" in offered("curriculum=metis", "curriculum.preset=")
    assert offered("curriculum=mopps", "filter=") == ["filter=dapo", "filter=ragen2"]
    assert "curriculum.filter.keep=" in offered("filter=ragen2", "curriculum.filter.")
    assert offered("steps=") == []


def test_a_recipe_is_read_for_the_keys(tmp_path):
    recipe = tmp_path / "own.toml"
    recipe.write_text('engine = "simulated"\n[curriculum]\nname = "greso"\n')
    assert offered(str(tmp_path) + "/o") == [str(recipe)]
    assert "curriculum.multiplier=" in offered(str(recipe), "curriculum.")
    assert offered(str(recipe), "task") == []


@pytest.mark.parametrize("wrong", ["absent.toml", "engine=unknown", "=", "curriculum.preset=no"])
def test_a_wrong_word_before_does_not_hide_the_keys(wrong):
    assert "steps=" in offered(wrong, "st")


def test_folders_and_recipes_are_offered_and_no_other_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "rest.txt").touch()
    (tmp_path / "recipe.toml").touch()
    assert offered("re") == ["recipe.toml", "recipes/"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_completes_a_command():
    here = Path(sys.executable).parent
    script = """
        eval "$(register-python-argcomplete metis)"
        COMP_LINE="metis train engine=simulated curriculum=un" COMP_WORDS=(metis train)
        COMP_POINT=${#COMP_LINE} COMP_TYPE=9
        _python_argcomplete metis
        echo "${COMPREPLY[@]}"
    """
    path = f"{here}:{os.environ['PATH']}"
    said = subprocess.check_output(["bash", "-c", script], env={**os.environ, "PATH": path})
    assert said.split() == [b"uniform"]
