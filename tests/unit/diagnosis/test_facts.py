"""What is measured of a run: the paired rise, shares of what was wasted, the judge's lift."""

import json
import tracemalloc

import pytest

from metis.diagnosis.facts import Interval, RunFacts, interval, paired
from metis.diagnosis.words import learnt
from metis.run.recorded import read_run
from metis.run.statistics import Estimate
from metis.run.transcripts import Transcripts

STEPS = 20
"""Of the runs that `make` writes."""


@pytest.fixture
def tested(tmp_path):
    """A run of two validations, each a mapping of prompts to rewards, or an accuracy alone."""

    def make(before, after, **config):
        (tmp_path / "config.json").write_text(json.dumps(config))
        metrics, evals = [], []
        for step, test in enumerate((before, after)):
            known = test if isinstance(test, dict) else {}
            accuracy = sum(known.values()) / max(1, len(known)) if known else test
            metrics.append({"step": step, "eval/accuracy": accuracy, "eval/stderr": 0.03})
            evals += [{"step": step, "prompt": p, "reward": r} for p, r in known.items()]
        for log, rows in (("metrics", metrics), ("evals", evals)):
            (tmp_path / f"{log}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        return read_run(tmp_path)

    return make


def named(prefix, *rewards):
    return {f"{prefix}:{i}": reward for i, reward in enumerate(rewards)}


def test_prompts_are_paired(tested):
    run = tested(named("a", 0, 0, 0, 1), named("a", 1, 0, 1, 1))
    assert paired(run) == (0.5, pytest.approx(0.289, abs=1e-3))


def test_prompts_are_paired_within_their_benchmark(tested):
    before = named("few", *[0] * 4) | named("many", *[0] * 100)
    after = named("few", 1, 1, 1, 0) | named("many", *[0] * 90, *[1] * 10)
    error = (0.25**2 + 0.09 / 99) ** 0.5 / 2
    run = tested(before, after, benchmarks=["few.jsonl", "many.jsonl"])
    assert paired(run) == pytest.approx((0.425, error))


def test_a_held_out_prompt_that_failed_unnamed_counts_as_0(tested):
    """As on verl, where a failed answer has no reward and its prompt no name."""
    run = tested({"a": 1, "b": 0}, {"b": 1, "c": 1})
    assert paired(run).mean == pytest.approx(1 / 3)


def test_where_prompts_are_not_logged_the_error_is_that_of_independent_samples(tested):
    run = tested(0.2, 0.5)
    assert paired(run) == (pytest.approx(0.3), None)
    assert RunFacts(run).rise == (pytest.approx(0.3), pytest.approx(0.03 * 2**0.5))


def test_an_interval_needs_an_error():
    assert interval(None) is None and interval(Estimate(0.1, None)) is None
    assert interval(Estimate(0.1, 0.05)) == pytest.approx((0.1, 0.002, 0.198))
    assert str(Interval(0.1, -0.05, 0.25)) == "+0.100 [-0.050, +0.250]"


def truncated_tests(folder, counts):
    """Ten answers of the first and of the last validation, so many of them truncated."""
    for step, count in zip((0, STEPS), counts, strict=True):
        for place in range(10):
            row = {"rollout": 0, "messages": [], "reward": 0.0, "truncated": place < count}
            head = {"step": step, "prompt": f"held:{place}", "messages": [], "n": 1}
            Transcripts(folder).append("eval", head, [row])


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        ((9, 5), ". But 90% → 50% of the validation answers were truncated"),
        ((9, 9), ". But 90% of the validation answers were truncated"),
        ((0, 0), ""),
    ],
)
def test_truncated_validation_answers_are_told_of(make, cut, said):
    run = make()
    truncated_tests(run.folder, cut)
    line = learnt(RunFacts(run))
    assert line.startswith("Yes") and said in line and ("truncated" in line) == bool(said)


def test_fewer_truncated_answers_are_no_remark_where_answers_collapsed(make):
    run = make(lambda step: {"rollout/tokens": 6400.0 if step <= 10 else 64.0}, after=0)
    truncated_tests(run.folder, (5, 0))
    line = learnt(RunFacts(run))
    assert line.startswith("No, it fell") and "truncated" not in line


def test_groups_are_counted_by_kind_and_late_ones_apart(make):
    run = make(rewards=lambda step: [0.0] * 8 if step <= 10 else [1.0] * 8)
    facts = RunFacts(run)
    assert facts.kinds == {"all-fail": 0.5, "all-pass": 0.5}
    assert facts.late_kinds == {"all-pass": 1.0}


def test_rollouts_are_shares_of_those_generated(make):
    counts = {"rollout/failed": 8.0, "rollout/cut_off": 16.0, "select/discarded": 32.0}
    facts = RunFacts(make(lambda step: counts))
    assert (facts.failed, facts.truncated, facts.discarded) == (0.125, 0.25, 0.5)
    assert facts.wasted == 0.5


def test_the_lift_is_pooled_over_windows_that_do_not_overlap(make):
    def judged(step):
        return {"judge/realised_lift": 0.01 * step, "judge/realised_lift_z": 2.0}

    run = make(judged, curriculum={"name": "metis", "trial": 8})
    lift = RunFacts(run).lift
    steps = [20, 12, 4]
    error = sum((0.01 * s / 2) ** 2 for s in steps) ** 0.5 / 3
    assert lift == pytest.approx((0.12, error))


def test_a_run_that_has_not_begun_has_no_facts(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text("")
    facts = RunFacts(read_run(tmp_path))
    assert facts.rise is facts.lift is facts.gradient is facts.wasted is None
    assert facts.failed == facts.truncated == 0.0 and not facts.judged


def test_groups_are_counted_without_holding_the_log(make):
    run = make()
    long = "x" * 100_000
    row = {"schema": 1, "step": 3, "prompt": "a", "rewards": [1.0, 0.0], "tokens": [5, 7]}
    with (run.folder / "rollouts.jsonl").open("w") as log:
        for _ in range(200):
            log.write(json.dumps(row | {"answers": [long, long]}) + "\n")
    tracemalloc.start()
    groups = RunFacts(run).groups
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * len(long) < (run.folder / "rollouts.jsonl").stat().st_size
    assert (len(groups.kinds), groups.rollouts, groups.last) == (200, 400, 3)
    assert (groups.rewards, groups.lengths) == ({0.0, 1.0}, {5: 200, 7: 200})
