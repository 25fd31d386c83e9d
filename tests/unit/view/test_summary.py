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


def test_three_lines_say_what_happened_two_where_and_what_next(folder):
    (before, first), (after, last) = exam(0, 0, 0, 0, 1), exam(2, 1, 0, 1, 1)
    metrics = [
        before,
        {"step": 1, "batch/informative": 0.5, "total/rollout_generated": 1000.0},
        {**after, "batch/informative": 1.0, "total/rollout_generated": 2000.0},
    ]
    place = folder(metrics, evals=first + last)
    assert summary(place) == [
        "held-out accuracy 0.250 → 0.750 (+0.500 ± 0.289) in 2 steps",
        "2,000 rollouts; 75% of groups trained on were informative",
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
    assert summary(place)[:3] == [
        "held-out accuracy 0.000 → 0.500 (+0.500 ± 0.500) in 2 steps; best 1.000 at step 1",
        "64 rollouts, 16 discarded, 75% truncated; 100% of groups trained on were informative",
        "judging took 10.0% of 10 s (simulated); the judge chose the batch alone in 1 of 2 "
        f"steps{half}",
    ]


def test_a_run_that_only_measured_has_a_summary_too(folder):
    (before, first), (after, last) = exam(0, 0.5), exam(1, 0.5)
    place = folder([before, {**after, "total/rollout_generated": 8.0}], evals=first + last)
    assert summary(place)[:2] == [
        "held-out accuracy 0.500 → 0.500 (+0.000) in 1 steps",
        "8 rollouts; none was trained on",
    ]


def test_prompts_are_paired_within_their_benchmark(folder):
    def test(step, few, many):
        named = {f"few:{i}": r for i, r in enumerate(few)}
        named |= {f"many:{i}": r for i, r in enumerate(many)}
        return [{"step": step, "prompt": name, "reward": r} for name, r in named.items()]

    rows = test(0, [0] * 4, [0] * 100) + test(1, [1, 1, 1, 0], [0] * 90 + [1] * 10)
    metrics = [{"step": 0, "eval/accuracy": 0.0}, {"step": 1, "eval/accuracy": 0.425}]
    place = folder(metrics, evals=rows, benchmarks=["few.jsonl", "many.jsonl"])
    error = (0.25**2 + 0.09 / 99) ** 0.5 / 2
    assert summary(place)[0] == (
        f"held-out accuracy 0.000 → 0.425 (+0.425 ± {error:.3f}) in 1 steps"
    )


def test_a_held_out_prompt_that_failed_unnamed_counts_as_0(folder):
    """As on verl, where a failed answer has no reward and its prompt no name."""
    (before, first), (after, last) = exam(0, 1, 0, 0), exam(2, 0, 1, 1)
    place = folder([before, after], evals=[*first[:2], *last[1:]])
    assert summary(place)[0].startswith("held-out accuracy 0.333 → 0.667 (+0.333 ± 0.")


def test_without_named_prompts_the_rise_has_no_error(folder):
    (before, _), (after, _) = exam(0, 0, 0), exam(2, 0, 1)
    learnt = summary(folder([before, after]))[0]
    assert learnt == "held-out accuracy 0.000 → 0.500 (+0.500) in 2 steps"


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
    learnt, spent, _, reason, *_ = summary(place)
    assert "2 held-out prompts failed" in learnt
    assert spent == "8 rollouts, 5 failed; none was trained on"
    assert reason == "the first failure: TypeError: no number (my.py, line 3, in score)"
