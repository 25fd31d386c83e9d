"""The rows of the page: judgments and rollouts of a run, joined."""

import json

import pytest

from metis.run.recorded import read_run
from metis.view.browse.data import document


@pytest.fixture
def run(tmp_path):
    def make(judgments=(), rollouts=(), exemplars=()):
        logs = {"judgments": judgments, "rollouts": rollouts, "exemplars": exemplars}
        logs["metrics"] = [{"step": 0}, {"step": 1, "batch/reward": 0.5, "other": 2.0}]
        (tmp_path / "config.json").write_text("{}")
        for log, rows in logs.items():
            (tmp_path / f"{log}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
        return read_run(tmp_path)

    return make


CHOSEN = {
    "step": 1,
    "prompt": "a",
    "chosen": True,
    "reason": "top",
    "score": 0.2,
    "reply": "likely",
    "distribution": {"0.25": 1.0},
}
PASSED = {**CHOSEN, "prompt": "b", "chosen": False, "reason": "passed over"}
GROUP = {
    "step": 1,
    "prompt": "a",
    "category": "sums",
    "rewards": [1.0, 0.0],
    "tokens": [3, 4],
    "failed": 1,
    "text": "1 + 1",
    "answers": ["2", ""],
}


def test_a_group_has_its_judgment_and_what_came_of_it(run):
    (row,) = document(run([CHOSEN], [GROUP]))["rows"]
    assert row == {
        **{key: GROUP[key] for key in GROUP},
        **{key: CHOSEN[key] for key in ("reason", "score", "reply", "distribution")},
        "variance": 0.25,
        "outcome": "informative",
    }


def test_a_candidate_that_was_not_chosen_is_short_and_has_the_category_it_had_elsewhere(run):
    earlier = {**GROUP, "step": 3, "prompt": "b", "category": "products"}
    rows = document(run([PASSED], [earlier]))["rows"]
    assert rows[0] == {
        "step": 1,
        "prompt": "b",
        "category": "products",
        "reason": "passed over",
        "score": 0.2,
        "outcome": "not rolled out",
    }
    assert (rows[1]["step"], "score" in rows[1]) == (3, False), "a group without a judgment"


@pytest.mark.parametrize(
    ("rewards", "outcome"),
    [
        ([0.0, 0.0], "all-fail"),
        ([1.0, 1.0], "all-pass"),
        ([0.1, 0.4], "informative"),
        ([1.0], "failed"),
    ],
)
def test_outcomes_have_the_names_of_the_survey(run, rewards, outcome):
    (row,) = document(run([], [{**GROUP, "rewards": rewards}]))["rows"]
    assert row["outcome"] == outcome
    assert ("variance" in row) == (len(rewards) > 1)


def test_answers_of_earlier_versions_and_none_at_all(run):
    old = {key: value for key, value in GROUP.items() if key not in ("answers", "text")}
    rows = document(run([], [{**old, "answer": "2"}, {**old, "prompt": "c"}]))["rows"]
    assert [row["answers"] for row in rows] == [["2"], []]


def test_steps_have_their_metrics_and_exemplars(run):
    shown = {"step": 1, "prompt": "z", "value": 0.25, "variance": 0.2, "outcome_step": 0}
    found = document(run([], [], [shown]))
    assert found["steps"] == [{"step": 0}, {"step": 1, "reward": 0.5}]
    assert found["exemplars"] == {1: [{k: v for k, v in shown.items() if k != "step"}]}


def test_a_run_without_these_logs_has_no_rows(run, tmp_path):
    recorded = run()
    for log in ("judgments", "rollouts", "exemplars"):
        (tmp_path / f"{log}.jsonl").unlink()
    assert document(recorded)["rows"] == []
