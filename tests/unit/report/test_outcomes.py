"""Predictions beside outcomes: what is joined, what is left out, and how it is binned."""

import json

import pytest

from metis.cli import main
from metis.errors import MetisError
from metis.report.outcomes import (
    APART,
    LEAST,
    MOST,
    PredictedOutcome,
    binned,
    halves,
    read_outcomes,
)
from metis.run import recorded as curves


@pytest.fixture
def recorded(tmp_path):
    def make(
        judgments=None,
        rollouts=None,
        metrics=({"step": 1, "judge/v_hat_mean": 0.1},),
        judge="direct",
    ):
        config = {"curriculum": {"name": "metis", "judge": {"name": judge}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        logs = {"metrics": metrics, "judgments": judgments, "rollouts": rollouts}
        for log, rows in logs.items():
            if rows is not None:
                lines = "".join(json.dumps({"schema": 1, **row}) + "\n" for row in rows)
                (tmp_path / f"{log}.jsonl").write_text(lines)
        return curves.read_run(tmp_path)

    return make


def judgment(prompt, reason="top", step=1, **row):
    return {
        "step": step,
        "prompt": prompt,
        "chosen": reason != "passed over",
        "reason": reason,
    } | row


def rollout(prompt, *rewards, step=1):
    return {"step": step, "prompt": prompt, "rewards": list(rewards)}


def outcome(v_hat, v, step=1, uniform=True):
    return PredictedOutcome(step, v_hat, v, uniform, binary=True)


def test_a_group_is_joined_with_its_prediction_by_step_and_prompt(recorded):
    judgments = [
        judgment("a", "trial", score=0.1),
        judgment("b", score=0.2),
        judgment("c", "passed over", score=0.05),
        judgment("a", "explore", step=2, score=0.15),
        judgment("d", "guard", step=2, score=0.25),
    ]
    rollouts = [
        rollout("a", 0.0, 1.0),
        rollout("b", 1.0, 1.0),
        rollout("a", 0.0, 0.0, 0.0, 1.0, step=2),
        rollout("d", 0.0, 0.5, step=2),
    ]
    assert read_outcomes(recorded(judgments, rollouts)) == [
        PredictedOutcome(1, 0.1, 0.25, True, True),
        PredictedOutcome(1, 0.2, 0.0, False, True),
        PredictedOutcome(2, 0.15, 0.1875, True, True),
        PredictedOutcome(2, 0.25, 0.0625, True, False),
    ]


def test_a_judge_may_rank_by_another_scale_than_variances(recorded):
    judgments = [judgment("a", score=7.5, v_hat=0.2), judgment("b", score=9.5)]
    rollouts = [rollout("a", 0.0, 1.0), rollout("b", 0.0, 1.0)]
    [outcome] = read_outcomes(recorded(judgments, rollouts, judge="mine.py:Mine"))
    assert (outcome.v_hat, outcome.v) == (0.2, 0.25)
    for row in judgments:
        row.pop("v_hat", None)
    assert read_outcomes(recorded(judgments, rollouts, judge="mine.py:Mine")) == []


def test_failed_judgments_and_groups_without_a_variance_are_left_out(recorded):
    judgments = [
        judgment("a", failure="no box", reply='"chosen": true'),
        judgment("b", "top", propensity=1.0),
        judgment("c", score=0.1),
        judgment("d", "passed over", score=0.1, reply='"chosen": true'),
    ]
    rollouts = [rollout("a", 0.0, 1.0), rollout("b", 0.0, 1.0), rollout("c", 1.0), rollout("e")]
    assert read_outcomes(recorded(judgments, rollouts)) == []


def test_without_logs_or_without_a_judge_there_are_no_outcomes(recorded):
    assert read_outcomes(recorded()) == []
    judgments, rollouts = [judgment("a", score=0.1)], [rollout("a", 0.0, 1.0)]
    assert read_outcomes(recorded(judgments)) == []
    assert read_outcomes(recorded(judgments, rollouts, [{"step": 1, "batch/reward": 0.5}])) == []


def test_a_damaged_log_is_one_clear_line(recorded):
    run = recorded([judgment("a", score=0.1)], [])
    with (run.folder / "judgments.jsonl").open("a") as file:
        file.write('{"step": 2, "chosen": true, "pro\n')
    with pytest.raises(MetisError, match=r"judgments\.jsonl, line 2, is damaged"):
        read_outcomes(run)


def test_halves_are_cut_in_the_middle_of_the_steps():
    outcomes = [outcome(0.1, 0.1, step) for step in (1, 2, 3, 5, 8)]
    assert [[o.step for o in half] for half in halves(outcomes)] == [[1, 2, 3], [5, 8]]
    assert [[o.step for o in half] for half in halves(outcomes[:1])] == [[1], []]
    assert halves([]) == ([], [])


def test_a_bin_has_means_a_standard_error_and_a_count():
    low = [outcome(0.02, 0.0)] * 4 + [outcome(0.02, 0.1)]
    high = [outcome(0.2, 0.25)] * LEAST
    first, last = binned(high + low)
    assert first == (pytest.approx(0.02), pytest.approx(0.02), pytest.approx(0.02), 5)
    assert last == (pytest.approx(0.2), 0.25, 0.0, LEAST)


@pytest.mark.parametrize(
    ("count", "bins"), [(1, 1), (LEAST - 1, 1), (3 * LEAST, 3), (100, MOST), (5000, MOST)]
)
def test_bins_are_as_many_as_the_outcomes_allow_and_of_equal_size(count, bins):
    found = binned([outcome(i / count / 4, 0.1) for i in range(count)])
    assert len(found) == bins and sum(each.groups for each in found) == count
    smallest, largest = (f(each.groups for each in found) for f in (min, max))
    assert largest - smallest <= 2 + 2 * count / APART
    assert [each.v_hat for each in found] == sorted(each.v_hat for each in found)


def test_predictions_that_are_nearly_equal_stay_together():
    crowd = [outcome(0.001 * (i % 3), 0.0) for i in range(60)]
    rest = [outcome(0.05 + 0.01 * i, 0.2) for i in range(20)]
    first, *others = binned(crowd + rest)
    assert (first.v_hat, first.groups) == (pytest.approx(0.001), 60)
    assert len(others) > 1 and sum(each.groups for each in others) == 20
    assert len(binned([outcome(0.1, i / 100) for i in range(20)])) == 1
    assert binned([]) == []


RANKER = '''
from dataclasses import dataclass

from metis.core.state import Stateful
from metis.curricula.judges import Judge, Prediction, Predictions


@dataclass
class Ranker(Stateful, Judge):
    """Predicts 0.1 of every prompt, and ranks by a number of its own."""

    def predict(self, candidates, batch, pool, progress):
        yield from ()
        return Predictions([Prediction(p, 0.1, 100.0 + i) for i, p in enumerate(candidates)])
'''


def test_a_run_logs_what_its_judge_predicts_beside_what_it_ranks_by(tmp_path):
    (tmp_path / "ranker.py").write_text(RANKER)
    words = ["engine=simulated", "steps=3", "batch=4", "curriculum=metis"]
    judge = f"curriculum.judge={tmp_path}/ranker.py:Ranker"
    assert main(["train", *words, judge, "--out", str(tmp_path / "run")]) == 0
    outcomes = read_outcomes(curves.read_run(tmp_path / "run"))
    assert len(outcomes) == 12 and {outcome.v_hat for outcome in outcomes} == {0.1}
