"""Whole data sets: gold solutions earn 1, answers to other problems 0, and nothing raises.

A small set made for this test; with METIS_DATA naming a folder that holds math_train.jsonl.gz and
math_test.jsonl.gz (problem, solution, answer), all of it. Run with -s to see what was counted.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metis.tasks.file import read_rows
from metis.tasks.math.answers.equality import exact, final_answer, score
from metis.tasks.math.answers.verifier import Verifier

MADE = [
    ("Halve $\\sqrt{12}$.", "It is $\\sqrt{3}$, so $\\boxed{\\sqrt{3}}$.", "\\sqrt{3}"),
    ("Halve 7.", "$7/2 = \\boxed{\\frac{7}{2}}$ or \\$3.50.", "\\frac{7}{2}"),
    ("Double 500.", "It is $\\boxed{1,\\!000}$.", "1,\\!000"),
    ("Solve $x^2=9$.", "Both signs: $\\boxed{-3, 3}$.", "-3, 3"),
    ("Which day?", "It is \\boxed{\\text{Tuesday}}.", "\\text{Tuesday}"),
    ("Write 3 in base 2.", "$2+1$, so $\\boxed{11_2}$.", "11_2"),
    ("What is 10+1?", "First $\\boxed{10}$, then $\\boxed{11}$.", "11"),
    ("Solve $x<2$.", "$\\boxed{(-\\infty, 2)}$", "(-\\infty, 2)"),
    ("The number two?", "Its largest value is $\\boxed 2$.", "2"),
    ("Expand $(x+1)^2$.", "$\\boxed{x^2+2x+1}$", "x^2+2x+1"),
]
MISMATCHED = 10_000


@pytest.fixture(scope="module")
def rows():
    folder = os.environ.get("METIS_DATA")
    if not folder:
        return MADE
    files = [Path(folder) / f"math_{part}.jsonl.gz" for part in ("train", "test")]
    found = [row for file in files for row in read_rows(str(file), "METIS_DATA")]
    return [(row["problem"], row["solution"], row["answer"]) for row in found]


@pytest.fixture(scope="module")
def verifier():
    with Verifier(seconds=5) as opened:
        yield opened


class Never:
    def same(self, answer, reference):
        raise AssertionError(f"a gold answer was not settled: {answer!r}, {reference!r}")


def test_every_gold_solution_earns_1(rows):
    for _, solution, answer in rows:
        assert score(solution, answer) == 1.0, (solution, answer)
        assert score(solution, answer, Never()) == 1.0, (solution, answer)


def test_a_solution_of_another_problem_earns_0_unless_it_is_equal(rows, verifier):
    rng = random.Random(0)
    pairs = [rng.sample(rows, 2) for _ in range(min(MISMATCHED, 50 * len(rows)))]
    with ThreadPoolExecutor(8) as threads:
        earned = list(threads.map(lambda pair: score(pair[0][1], pair[1][2], verifier), pairs))
    found = [
        (final_answer(given[1]), wanted[2])
        for (given, wanted), value in zip(pairs, earned, strict=True)
        if value
    ]
    plain = [pair for pair in found if exact(*pair)]
    others = sorted(set(found) - set(plain))
    print(f"{len(pairs)} pairs, {len(plain)} with one answer, {len(others)} written differently:")
    print(*others, sep="\n")
    assert set(earned) <= {0.0, 1.0}
    assert len(found) < 0.05 * len(pairs)
