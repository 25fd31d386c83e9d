"""The rows of a step: why each candidate was chosen, what the judge was shown, what came of it."""

import numpy as np
import pytest

from metis import Batch, Group, Prompt
from metis.cli import main
from metis.core import Decision, Exemplar, Trajectory
from metis.run.folder import read_log
from metis.run.records import exemplar_rows, judgment_rows, rollout_rows

EASY, HARD = Prompt("p:1", "1 + 1", "sums"), Prompt("p:2", "the Riemann hypothesis")


def group(prompt, *rewards):
    tokens = np.arange(3)
    one = Trajectory(tokens, tokens > 0, np.zeros(3, dtype=np.float32), 0)
    return Group(prompt, rewards, (one,) * len(rewards))


def test_a_judgment_has_its_distribution_in_short_and_what_came_of_it():
    likely = {"0.00": 0.004, "0.10": 0.096, "0.25": 0.9}
    batch = Batch(
        [group(EASY, 0.0, 1.0)],
        decisions=[
            Decision(EASY, True, "top", 0.23, propensity=0.5, distribution=likely),
            Decision(HARD, False, "passed over", failure="does not fit"),
        ],
    )
    assert list(judgment_rows(7, batch)) == [
        {
            "step": 7,
            "prompt": "p:1",
            "chosen": True,
            "reason": "top",
            "score": 0.23,
            "distribution": {"0.10": 0.1, "0.25": 0.9},
            "variance": 0.25,
            "propensity": 0.5,
        },
        {
            "step": 7,
            "prompt": "p:2",
            "chosen": False,
            "reason": "passed over",
            "failure": "does not fit",
        },
    ]


def test_a_group_without_a_variance_has_none_in_its_judgment():
    batch = Batch([group(EASY, 1.0)], decisions=[Decision(EASY, True, "next")])
    [row] = judgment_rows(1, batch)
    assert "variance" not in row


def test_a_rollout_has_its_category_and_an_exemplar_its_outcome():
    batch = Batch([group(EASY, 0.0, 1.0)], exemplars=[Exemplar(HARD, 2.0, 0.1875, 3)])
    [rolled] = rollout_rows(4, batch)
    assert (rolled["category"], rolled["rewards"], rolled["tokens"]) == ("sums", [0, 1], [2, 2])
    [shown] = exemplar_rows(4, batch)
    assert shown == {
        "step": 4,
        "prompt": "p:2",
        "value": 2.0,
        "variance": 0.1875,
        "outcome_step": 3,
    }


@pytest.mark.parametrize(
    ("settings", "answers"),
    [
        (["curriculum.judge.scale=passes"], {*"012345678"}),
        (["curriculum.judge.scale=variance"], {"0.00", "0.02", "0.10", "0.20", "0.25"}),
        (["curriculum.preset=paper"], None),
    ],
)
def test_the_logs_of_a_run_say_why_each_prompt_was_chosen(tmp_path, settings, answers):
    run = tmp_path / "run"
    short = ["engine=simulated", "engine.prompts=60", "batch=4", "steps=4", "evaluate=0"]
    assert main(["train", *short, *settings, "--out", str(run)]) == 0
    judged, rolled = read_log(run, "judgments"), read_log(run, "rollouts")
    groups = {(row["step"], row["prompt"]): row["rewards"] for row in rolled}
    for row in judged:
        rewards = groups.get((row["step"], row["prompt"]))
        assert row["chosen"] == (rewards is not None) == ("variance" in row)
        assert rewards is None or row["variance"] == pytest.approx(np.var(rewards))
        assert ("distribution" in row) == (answers is not None)
        if answers:
            assert sum(row["distribution"].values()) == pytest.approx(1.0, abs=0.1)
    if answers:
        assert answers <= {answer for row in judged for answer in row["distribution"]}
    shown = read_log(run, "exemplars")
    assert {row["step"] for row in shown} == {2, 3, 4}, "there is nothing to show at first"
    for row in shown:
        rewards = groups[row["outcome_step"], row["prompt"]]
        assert row["outcome_step"] < row["step"] and row["variance"] == np.var(rewards)
        assert row["value"] == (
            8 * np.mean(rewards) if answers and "8" in answers else row["variance"]
        )
        assert (row["step"], row["prompt"]) not in {(r["step"], r["prompt"]) for r in judged}
