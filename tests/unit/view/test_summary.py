import json

import pytest

from metis.run import notices
from metis.view import summary

TIMINGS = [{"step": 1, "rollout": 6.0, "update": 2.0, "elapsed": 8.0}]


@pytest.fixture
def folder(tmp_path):
    def make(metrics, timings=TIMINGS, evals=(), engine="local", **settings):
        config = {"engine": {"name": engine}, **settings}
        (tmp_path / "config.json").write_text(json.dumps(config))
        for log, rows in (("metrics", metrics), ("timings", timings), ("evals", evals)):
            lines = "".join(json.dumps({"schema": 1, **row}) + "\n" for row in rows)
            (tmp_path / f"{log}.jsonl").write_text(lines)
        return tmp_path

    return make


def exam(step, *rewards):
    rows = [{"step": step, "prompt": str(i), "reward": r} for i, r in enumerate(rewards)]
    return {"step": step, "eval/accuracy": sum(rewards) / len(rewards)}, rows


def test_a_summary_is_the_diagnosis_the_time_and_where_to_look(folder):
    (before, first), (after, last) = exam(0, 0, 0, 0, 1), exam(2, 1, 0, 1, 1)
    metrics = [
        before,
        {"step": 1, "batch/informative": 0.5, "total/rollout_generated": 1000.0},
        {**after, "batch/informative": 1.0, "total/rollout_generated": 2000.0},
    ]
    place = folder(metrics, evals=first + last)
    assert summary(place) == [
        "Did it learn? No change shown: held-out accuracy 0.250 → 0.750 in 2 steps, "
        "+0.500 [-0.066, +1.066] on the same 4 problems",
        "What was wasted? 2,000 rollouts; 75% of the groups trained on had a gradient",
        "What to change next? 4 held-out problems are too few: the change in accuracy is known to "
        "±0.566 only. About 550 would tell one of 0.05",
        "8 s of training: 75% rollout, 25% update",
        f"run folder: {place}",
        f"next: metis report {place} · metis inspect {place} · metis view {place} · metis eval "
        f"{place}",
    ]


@pytest.mark.parametrize(
    ("metric", "half"),
    [("select/trial", ", half of it in 1"), ("select/guarded", "")],
    ids=["trial", "guard"],
)
def test_judging_discards_and_a_better_step_before_the_last_are_named(folder, metric, half):
    """Runs made before there were trials drew the whole batch uniformly instead."""
    (before, first), (best, middle), (after, last) = (
        exam(0, 0, 0),
        exam(1, 1, 1),
        exam(2, 1, 0),
    )
    counted = {"batch/informative": 1.0, "total/rollout_generated": 64.0, "select/discarded": 8.0}
    counted |= {"rollout/generated": 32.0, "rollout/cut_off": 24.0}
    metrics = [
        before,
        {**best, **counted, metric: 1.0},
        {**after, **counted, metric: 0.0},
    ]
    timings = [{"step": 2, "judge": 1.0, "rollout": 9.0, "elapsed": 10.0}]
    place = folder(metrics, timings, first + middle + last, engine="simulated")
    learnt, wasted, *_, took, _, _ = summary(place)
    assert learnt.endswith("[-0.480, +1.480] on the same 2 problems; best 1.000 at step 1")
    assert "64 rollouts: 75% truncated, 25% discarded; 100% of the groups" in wasted
    assert took == (
        "10 s (simulated) of training: 10% judge, 90% rollout; the judge chose the batch alone in "
        f"1 of 2 steps{half}"
    )


def test_a_run_that_only_measured_has_a_summary_too(folder):
    (before, first), (after, last) = exam(0, 0.5), exam(1, 0.5)
    place = folder([before, {**after, "total/rollout_generated": 8.0}], evals=first + last)
    learnt, wasted, *_ = summary(place)
    assert "No change: held-out accuracy 0.500 → 0.500 in 1 steps" in learnt
    assert "8 rollouts; none was trained on" in wasted


def test_failures_are_counted_with_the_first_reason(folder):
    (before, first), (after, last) = exam(0, 0, 0), exam(1, 0, 0)
    counted = {"total/rollout_generated": 8.0, "rollout/failed": 5.0, "eval/failed": 2.0}
    place = folder([before, {**after, **counted}], evals=first + last)
    said = [
        notices.failure_notice("TypeError: no number (my.py, line 3, in score)"),
        notices.failure_notice("b"),
    ]
    rows = [{"schema": 1, "step": 1, "text": text} for text in ["the judge is on trial", *said]]
    (place / "notices.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    learnt, spent, reason, command, *_ = summary(place)
    assert "2 of the last answers failed" in learnt
    assert spent.endswith("8 rollouts: 62% failed; none was trained on")
    assert "62% of the rollouts failed" in reason
    assert "TypeError: no number (my.py, line 3, in score)" in reason
    assert command == f"  metis view {place}"
