"""The offline benchmark of judges, whole, on the tiny model and a set made for it."""

import json

import pytest

from metis import MetisError

SMALL = ["--labels", "8", "16", "--splits", "0", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def benchmark(benchmark_script):
    return benchmark_script("judge_offline")


@pytest.fixture
def run(benchmark, kept, tiny, tmp_path):
    out = tmp_path / "new" / "results.jsonl"

    def call(*words):
        benchmark.main([str(kept), "--out", str(out), "--model", str(tiny), *SMALL, *words])
        return [json.loads(line) for line in out.read_text().splitlines()[1:]]

    call.out = out
    return call


def test_every_judge_is_trained_and_measured_on_the_rest(run, benchmark, capsys):
    rows = run("--labels", "16")
    assert [row["row"] for row in rows] == list(benchmark.ROWS)
    for row in rows:
        assert row["prompts"] == 32 and row["set"] == "sums"
        assert row["spearman"] is None or -1 <= row["spearman"] <= 1
        assert 0 <= row["calibration"] <= 0.25
    by_name = {row["row"]: row for row in rows}
    known = by_name["level label"]
    assert known["spearman"] > 0.99 and known["informative"] == 1.0 and known["reward"] == 0.5
    flat = by_name["mean"]
    assert flat["spearman"] is None and flat["lift"] == pytest.approx(1.0)
    said = capsys.readouterr().out
    assert "### sums: 16 labels, about 32 other prompts" in said
    assert "difference from the probe" in said


def test_what_is_done_is_not_done_again_and_other_results_are_refused(run, capsys):
    first = run("--rows", "mean", "log score, passes")
    assert [row["labels"] for row in first] == [8, 16] * 2
    content = run.out.read_text()
    run.out.write_text(content + '{"row": "to')  # it was stopped while it wrote the next
    assert run("--rows", "mean", "log score, passes", "probe", "--minutes", "0") == first
    assert run.out.read_text() == content
    assert "split 0" not in capsys.readouterr().out.split("### ")[-1]
    assert len(run("--rows", "probe")) == len(first) + 2
    with pytest.raises(MetisError, match=r"is of \{.*name another file"):
        run("--learning-rate", "1e-4")
    with pytest.raises(MetisError, match=r"--labels = \[999\]: at most 32 leave a rest"):
        run("--labels", "999")


def test_the_calibration_error_by_hand(benchmark):
    """Two bins: 0.1 and 0.0 against a mean of 0.1, then 0.2 twice against 0.05."""
    error = benchmark.calibration_error([0.2, 0.0, 0.2, 0.1], [0.1, 0.2, 0.0, 0.0], bins=2)
    assert error == pytest.approx((2 * 0.05 + 2 * 0.15) / 4)
    assert benchmark.calibration_error([], []) is None
    outcomes = [0.0, 0.1, 0.25]
    assert benchmark.calibration_error(outcomes, outcomes) == pytest.approx(0.0)
    assert benchmark.calibration_error([0.5] * 3, outcomes, bins=1) == pytest.approx(0.5 - 0.35 / 3)


def test_states_are_read_once_as_long_as_nothing_trains_the_model(
    run, benchmark, monkeypatch, tmp_path
):
    words = ("--rows", "probe", "readout of the prompt", "--states", str(tmp_path / "states.npz"))
    first = run(*words)
    run.out.unlink()
    reads = []
    monkeypatch.setattr(benchmark.LocalEngine, "embed", lambda *_: reads.append(1))
    assert run(*words) == first and not reads


def test_a_judge_learns_from_recorded_outcomes(run):
    """The tiny network tells sums that always fail from those that sometimes pass."""
    words = ["--rows", "log score, passes", "--learning-rate", "1e-2", "--labels", "32"]
    (row,) = run(*words)
    assert row["spearman"] > 0.1
