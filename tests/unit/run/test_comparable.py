"""Runs are compared in accuracy where they answer the same prompts under the same conditions."""

from pathlib import Path

import pytest

from metis.run.comparable import groups, why_not
from metis.run.recorded import Recorded

SETTINGS = {
    "seed": 0,
    "data_seed": 0,
    "batch": 8,
    "benchmarks": [],
    "engine": {"name": "local", "max_tokens": 256},
    "task": {"name": "math", "instruction": "Think.", "heldout": 4, "shares": [1, 2]},
}


def run(tested="abcd", **settings):
    """A run with these settings, by their dotted keys, that was validated on these prompts."""
    config = {**SETTINGS, "engine": {**SETTINGS["engine"]}, "task": {**SETTINGS["task"]}}
    for key, value in settings.items():
        section, _, name = key.rpartition("__")
        (config[section] if section else config)[name] = value
    one = Recorded(Path("run"), config, {}, [], [])
    one.__dict__["rewards"] = {0: dict.fromkeys(tested, 0.0)} if tested else {}
    return one


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch": 16},
        {"seed": 1},
        {"task__shares": [2, 1]},
        {"tested": ""},
        {"data_seed": None, "seed": 3, "tested": "efgh"},
        {"changes": [{"key": "steps", "step": 4, "old": 8, "new": 16}]},
    ],
    ids=str,
)
def test_runs_that_differ_in_training_alone_are_compared(settings):
    """Where no `data_seed` is set, the runs of each seed have their own held-out prompts."""
    assert not why_not(run(**settings), run())
    assert not why_not(run(), run(**settings))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"engine__max_tokens": 512}, "engine.max_tokens = 512, not 256"),
        ({"task__instruction": "Be brief."}, "task.instruction = 'Be brief.', not 'Think.'"),
        ({"task__heldout": 5}, "task.heldout = 5, not 4"),
        ({"benchmarks": ["math500"]}, "benchmarks = ['math500'], not []"),
        ({"tested": "abce"}, "4 validation prompts, of which 3 are among the other's 4"),
        ({"tested": "abc"}, "3 validation prompts, of which 3 are among the other's 4"),
        (
            {"changes": [{"key": "engine.max_tokens", "step": 4, "old": 128, "new": 256}]},
            "engine.max_tokens was changed at step 4",
        ),
        ({"engine__name": "simulated"}, "simulated"),
    ],
    ids=str,
)
def test_runs_that_are_validated_otherwise_are_not(settings, said):
    assert why_not(run(**settings), run()) == said
    assert why_not(run(), run(**settings))
    assert len(groups([run(), run(**settings), run()])) == 2


def test_benchmarks_are_the_same_whatever_is_held_out():
    alike = {"benchmarks": ["data/math/math500.parquet"]}
    elsewhere = run(benchmarks=["/mnt/math500.parquet"], task__heldout=9, data_seed=4)
    assert not why_not(elsewhere, run(**alike))
    edited = run("abce", data_seed=4, **alike)
    assert "3 are among" in why_not(edited, run(**alike)), "the file was changed"


def test_settings_that_one_version_does_not_know_are_not_held_against_it():
    assert not why_not(run(task__examples=0), run())


def test_groups_keep_their_order():
    one, other, third = run(), run(engine__max_tokens=512), run(seed=1)
    assert groups([one, other, third]) == [[one, third], [other]]
