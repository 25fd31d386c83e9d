"""Scores, their means and errors by hand, and the table that shows them."""

import math

import pytest

from metis.core import Prompt, Sampling
from metis.evals import results
from metis.evals.plan import BatchLimits
from metis.evals.suite import Evaluation
from metis.run.statistics import Estimate, mean, mean_over_benchmarks
from metis.tasks.benchmarks.scoring import scores
from metis.tasks.benchmarks.sets import PromptSet
from metis.tasks.math import INSTRUCTION, MathProblem, MathProblems, wrap


def problem_set(name, count, beside=""):
    problems = [MathProblem(Prompt(f"{i}", "?"), wrap("?"), "1") for i in range(count)]
    task = MathProblems((), problems, None)
    return PromptSet(name, name.upper(), task, tuple(task.heldout()), "the box", beside)


def evaluation(*sets, samples=1):
    sampling = Sampling(64, float(samples > 1))
    return Evaluation(sets, sampling, samples, BatchLimits(8, 0), rows=8, seed=0)


def row(benchmark, problem, *values, numeric=None, finish="stop"):
    answers = []
    for value in values:
        found = {"faithful": value} | ({} if numeric is None else {"numeric": numeric})
        answers.append({"scores": found, "tokens": 10, "finish": finish, "turns": [""]})
    return {"benchmark": benchmark, "problem": str(problem), "answers": answers}


def test_means_and_their_errors():
    assert mean([1, 0, 0, 0]) == Estimate(0.25, pytest.approx(math.sqrt(0.25 * 0.75 / 3)))
    assert mean([1.0]) == Estimate(1.0, None)
    assert mean([0.0] * 30) == Estimate(0.0, None), "nothing varies: the error is not zero"
    assert mean_over_benchmarks([Estimate(0.2, 0.03), Estimate(0.4, None)]) == Estimate(
        pytest.approx(0.3), None
    )
    assert mean_over_benchmarks([Estimate(0.2, 0.03), Estimate(0.4, 0.04)]) == Estimate(
        pytest.approx(0.3), pytest.approx(0.025)
    )


def test_every_benchmark_has_the_same_weight():
    asked = evaluation(problem_set("a", 4), problem_set("b", 1))
    rows = [row("a", i, float(i == 0)) for i in range(4)] + [row("b", 0, 1.0, finish="length")]
    found = results.results(asked, rows, {"name": "model"})
    assert found["metric"] == "pass@1"
    assert found["benchmarks"]["a"]["scores"] == {"faithful": {"accuracy": 0.25, "stderr": 0.25}}
    assert found["benchmarks"]["b"]["cut_off"] == 1.0
    assert found["benchmarks"]["a"]["scorer"] == "the box"
    assert found["average"]["faithful"]["accuracy"] == 0.625
    assert "numeric" not in found["average"]


def test_samples_of_a_problem_count_as_one_observation():
    asked = evaluation(problem_set("a", 2), samples=4)
    rows = [row("a", 0, 1.0, 1.0, 0.0, 0.0), row("a", 1, 0.0, 0.0, 0.0, 0.0)]
    found = results.results(asked, rows, {"name": "model"})
    assert found["metric"] == "mean@4"
    assert found["benchmarks"]["a"]["scores"]["faithful"] == {
        "accuracy": 0.25,
        "stderr": 0.25,
        "pass@4": 0.5,
    }
    assert "| pass@4 |" in results.markdown(found)


def test_the_table_is_the_paper_s_with_a_row_for_near_numbers():
    asked = evaluation(problem_set("a", 1), problem_set("m", 1, beside="numeric"))
    found = results.results(asked, [row("a", 0, 1.0), row("m", 0, 0.0, numeric=1.0)], {"name": "x"})
    lines = results.markdown(found).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[:4]]
    assert cells[0] == ["model", "A", "M", "Avg."]
    assert cells[2] == ["x", "100.0 ± –", "0.0 ± –", "50.0 ± –"]
    assert cells[3] == ["… numbers within 1 %", "–", "100.0 ± –", "100.0 ± –"]
    assert "greedy" in lines[5] and "64 tokens" in lines[5]
    assert lines[-2:] == [
        f"- {name}: instruction: “{INSTRUCTION}”; scorer: the box" for name in "AM"
    ]


def test_answers_that_failed_are_counted_where_there_are_any():
    asked = evaluation(problem_set("a", 2))
    for finish, count in (("failed", 2), ("stop", 0)):
        rows = [row("a", i, 0.0, finish=finish) for i in range(2)]
        found = results.results(asked, rows, {"name": "model"})
        assert found["benchmarks"]["a"]["failed"] == count
        assert ("| failed |" in results.markdown(found)) is (count > 0)


@pytest.mark.parametrize(
    ("reply", "faithful", "numeric"),
    [
        ("so \\boxed{4.5e33}", 1.0, 1.0),
        ("so \\boxed{4.5 \\times 10^{33}}", 0.0, 1.0),
        ("so \\boxed{4.52 \\times 10^{33} \\text{ erg/s}}", 0.0, 1.0),
        ("so \\boxed{4.6 \\times 10^{33}}", 0.0, 0.0),
        ("so \\boxed{4.5 \\times 10^{32}}", 0.0, 0.0),
        ("it is 4.5e33", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_measured_quantities_are_also_scored_with_a_tolerance(reply, faithful, numeric):
    found = scores(faithful, reply, "4.5e33", beside="numeric")
    assert found == {"faithful": faithful, "numeric": numeric}
    assert scores(faithful, reply, "4.5e33", beside="") == {"faithful": faithful}
