"""The end of a run: after steps, tokens, total tokens or seconds, whichever comes first."""

import json

import pytest

from metis.cli import main
from metis.engines.simulated import SimulatedEngine
from metis.run import recorded
from metis.run.folder import read_log

SHORT = ["engine=simulated", "engine.prompts=40", "batch=4", "group=2", "curriculum=uniform"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def train(*settings):
    return main(["train", *SHORT, *settings, "--out", "run"])


def test_a_run_may_be_capped_by_seconds_alone(run, capsys):
    assert train("steps=0", "seconds=0.2", "evaluate=1") == 0
    timings = read_log(run, "timings")
    assert timings[-2]["elapsed"] < 0.2 <= timings[-1]["elapsed"]
    assert recorded.read_run(run).planned == len(timings)
    capsys.readouterr()
    assert train("steps=0", "seconds=0.2", "evaluate=1") == 0
    assert len(read_log(run, "timings")) == len(timings)


def test_reading_is_paid_for_in_total_tokens_alone(run):
    """The probe generates as much as no curriculum does, and reads its candidates beside it."""
    steps = {}
    for budget in ("tokens=20000", "processed=60000"):
        for curriculum in ("uniform", "probe"):
            out = f"{curriculum}-{budget}"
            settings = ["steps=0", budget, f"curriculum={curriculum}", "evaluate=0"]
            assert main(["train", *SHORT, *settings, "--out", out]) == 0
            last = read_log(run.with_name(out), "metrics")[-1]
            steps[out] = last["step"]
            if budget.startswith("processed"):
                spent = [value for name, value in last.items() if name.endswith("_processed")]
                assert sum(spent) >= 60000
    assert abs(steps["probe-tokens=20000"] - steps["uniform-tokens=20000"]) <= 3
    assert steps["probe-processed=60000"] < 0.8 * steps["uniform-processed=60000"]


def test_evaluation_does_not_count(run, monkeypatch):
    assert train("steps=0", "seconds=0.2", "evaluate=1") == 0
    straight = (run / "timings.jsonl").read_bytes()
    run.rename(run.with_name("quick"))
    evaluate = SimulatedEngine.evaluate

    def slow(self, *arguments, **named):
        self.seconds += 1000.0
        return evaluate(self, *arguments, **named)

    monkeypatch.setattr(SimulatedEngine, "evaluate", slow)
    assert train("steps=0", "seconds=0.2", "evaluate=1") == 0
    assert [row["step"] for row in read_log(run, "timings")] == [
        json.loads(line)["step"] for line in straight.splitlines()
    ]
    assert read_log(run, "timings")[-1]["elapsed"] == pytest.approx(
        json.loads(straight.splitlines()[-1])["elapsed"]
    )


def test_the_best_test_and_its_time_are_known(run, monkeypatch, capsys):
    values = (0.1, 0.2, 0.5, 0.3, 0.5)
    monkeypatch.setattr(
        SimulatedEngine, "evaluate", lambda self, *_, **__: [("p", values[self.version])]
    )
    assert train("steps=4", "evaluate=1") == 0
    metrics, timings = read_log(run, "metrics"), read_log(run, "timings")
    assert [row["eval/best"] for row in metrics] == [0.1, 0.2, 0.5, 0.5, 0.5]
    assert [row["eval/best_step"] for row in metrics] == [0, 1, 2, 2, 2]
    best = recorded.read_run(run).best
    assert (best.step, best.accuracy, best.elapsed) == (2, 0.5, timings[1]["elapsed"])
    assert "best 0.500 at step 2" in capsys.readouterr().out
