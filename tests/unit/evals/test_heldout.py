"""A run's own test is of the prompts that its training held out."""

import json

import pytest

from metis import MetisError
from metis.config import resolve, task_of
from metis.evals.heldout import own_sets

SETTINGS = {"task": {"name": "arithmetic", "prompts": 20, "heldout": 5}, "seed": 1, "data_seed": 7}


def record_test(run, task):
    run.mkdir()
    rows = ({"step": 0, "prompt": prompt.id} for prompt in task.heldout())
    (run / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_prompts_are_those_of_the_run_s_data_seed(tmp_path):
    config = resolve(SETTINGS)
    record_test(tmp_path / "run", config.task)
    [found] = own_sets(config.resolved, tmp_path / "run")
    assert list(found.prompts) == list(config.task.heldout())


def test_other_prompts_than_training_tested_on_are_refused(tmp_path):
    record_test(tmp_path / "run", resolve(SETTINGS).task)
    with pytest.raises(MetisError, match=r"5 of the 5 prompts that training tested on are not"):
        own_sets({**SETTINGS, "data_seed": 8}, tmp_path / "run")


def test_a_task_needs_none_of_a_run_s_trackers_and_curricula():
    more = {"sinks": ["none such"], "curriculum": {"name": "none such"}, "engine": {"name": "?"}}
    assert task_of({**SETTINGS, **more}).heldout() == resolve(SETTINGS).task.heldout()
