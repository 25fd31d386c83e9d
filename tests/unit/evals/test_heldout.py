"""A run's own test is of the prompts that its training held out."""

import json

import pytest

from metis import MetisError
from metis.config import resolve
from metis.evals.heldout import own_sets
from metis.settings.sections import task_of

SETTINGS = {"task": {"name": "arithmetic", "prompts": 20, "heldout": 5}, "seed": 1, "data_seed": 7}


def record_test(run, task):
    run.mkdir()
    rows = ({"step": 0, "prompt": prompt.id, "reward": 0.0} for prompt in task.heldout())
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
    more = {"loggers": ["none such"], "curriculum": {"name": "none such"}, "engine": {"name": "?"}}
    assert task_of({**SETTINGS, **more}).heldout() == resolve(SETTINGS).task.heldout()


TASK = """
from metis import Prompt
from metis.tasks.base import SingleTurn

class Mine:
    rewards = "binary"

    def training(self):
        return [Prompt("a", "A")]

    def heldout(self):
        return [Prompt("b", "B")]

    def episode(self, prompt):
        return SingleTurn([{"role": "user", "content": prompt.text}], len)
"""
REWARD = "def score(reply, reference): return 1.0\n"


@pytest.mark.parametrize(
    ("task", "code"),
    [
        ({"name": "mine.py:Mine"}, TASK),
        ({"name": "file", "path": "p.jsonl", "heldout": 1, "reward": "mine.py:score"}, REWARD),
    ],
)
def test_an_edited_task_or_reward_is_another_evaluation(tmp_path, monkeypatch, task, code):
    monkeypatch.chdir(tmp_path)
    rows = ({"problem": text, "answer": "1"} for text in "ab")
    (tmp_path / "p.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = []
    for edited in (code, code, f"{code}# edited\n"):
        (tmp_path / "mine.py").write_text(edited)
        found.append(own_sets({"task": task}, None)[0].described)
    assert found[0] == found[1] != found[2]
    assert found[0] | {"source": ""} == found[2] | {"source": ""}


def test_a_task_of_ours_has_no_source():
    assert "source" not in own_sets(SETTINGS, None)[0].described
