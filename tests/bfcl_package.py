"""The package bfcl-eval for tests: its dialogues, and its own executor and checker."""

import importlib
import json
import sys
import uuid
from dataclasses import replace

import pytest

from metis.data import fetched
from metis.prepare import bfcl_sets
from metis.tasks.bfcl import calls, package
from metis.tasks.bfcl.episode import Episode

COMMAND = "python -c 'from metis.tasks.bfcl import package; package.folder()'"


def require():
    """Skip where the package is not there; tests fetch nothing."""
    wheel = package.WHEEL
    if not (fetched.home() / "wheels" / f"{wheel.project}-{wheel.version}").is_dir():
        pytest.skip(f"needs bfcl-eval: {COMMAND}", allow_module_level=True)
    pytest.importorskip("mpmath", reason="pip install -e '.[bfcl]'")


def official():
    """The official checker, in a module whose instances can be taken away again."""
    package.apis()
    place = str(package.folder())
    sys.path.insert(0, place)
    try:
        name = "bfcl_eval.eval_checker.multi_turn_eval"
        checker = importlib.import_module(f"{name}.multi_turn_checker")
        utils = importlib.import_module(f"{name}.multi_turn_utils")
    finally:
        sys.path.remove(place)
    return checker, utils


def verdict(dialogue, turns):
    """The official verdict on the calls of each turn, step by step."""
    checker, utils = official()
    entry = {
        "id": f"multi_turn_{dialogue.category}_0",
        "initial_config": json.loads(json.dumps(dialogue.scenario)),
        "involved_classes": list(dialogue.names),
    }
    model = f"test{uuid.uuid4().hex}"
    truth = [list(turn) for turn in dialogue.truth]
    try:
        found = checker.multi_turn_checker(turns, truth, entry, dialogue.category, model)
    finally:
        for name in [name for name in vars(utils) if name.startswith(model)]:
            delattr(utils, name)
    return bool(found["valid"])


def play(dialogue, turns, **settings):
    """An episode in which the calls of each turn are made step by step."""
    episode = Episode(dialogue, **settings)
    for steps in turns:
        for step in steps:
            episode.make([calls.parse(call) for call in step])
        episode.end_turn()
    return episode


def solved(dialogue):
    """The ground truth, each turn in a single step."""
    return [[list(turn)] if turn else [] for turn in dialogue.truth]


def without_withholding(dialogue):
    """The official executor does not know that functions are withheld."""
    return replace(dialogue, handed={})


def write(folder, count=100):
    """Short dialogues as files to train on and to test with, by the settings that name them."""
    require()
    found = [each for name in ("base", "miss_func") for each in bfcl_sets.official(name)]
    found.sort(key=lambda each: (len(each.truth), len(each.chat[0]["content"])))
    paths = {}
    for key, part in (
        ("task.path", found[:count]),
        ("task.heldout_path", found[count : count + 2]),
    ):
        rows = [{"reward_model": {"ground_truth": each.written}} for each in part]
        paths[key] = folder / f"{key}.jsonl"
        paths[key].write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {key: str(path) for key, path in paths.items()}
