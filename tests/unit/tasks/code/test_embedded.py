"""The embedded problems: graded, told apart, each with a reference that passes and can fail."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from metis.tasks.code.embedded import CATEGORIES, problems
from metis.tasks.code.pool import cores
from metis.tasks.code.task import reward
from metis.tasks.code.tests import Call, Io
from programmed import answer, first_answer
from sandboxed import needs_bubblewrap

PROBLEMS = problems()


def test_there_are_enough_of_every_kind_and_level():
    assert len(PROBLEMS) >= 60
    assert set(Counter(problem.category for problem in PROBLEMS)) == set(CATEGORIES)
    levels = Counter(problem.difficulty for problem in PROBLEMS)
    assert set(levels) == {1.0, 2.0, 3.0, 4.0, 5.0} and min(levels.values()) >= 5
    kinds = Counter(type(problem.tests[0]) for problem in PROBLEMS)
    assert kinds[Io] >= 20 and kinds[Call] >= 20


def test_ids_and_statements_differ():
    assert len({problem.id for problem in PROBLEMS}) == len(PROBLEMS)
    assert len({problem.statement for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
def test_a_problem_is_whole(problem):
    assert 6 <= len(problem.tests) <= 25
    assert len({type(test) for test in problem.tests}) == 1
    assert len({repr(test.expected) for test in problem.tests}) > 1, "one answer passes all tests"
    asked = problem.chat()[0]["content"]
    first = problem.tests[0]
    shown = first.stdin if isinstance(first, Io) else f"{first.function}("
    assert shown in asked and problem.prompt.text in asked
    assert "Examples" not in problem.prompt.text and "\nInput\n" not in problem.prompt.text


@needs_bubblewrap
@pytest.mark.parametrize("category", CATEGORIES)
def test_references_pass_and_answers_without_work_do_not(category):
    found = [problem for problem in PROBLEMS if problem.category == category]
    with ThreadPoolExecutor(cores()) as threads:
        right = list(threads.map(lambda p: reward(answer(p.reference), p), found))
        lazy = list(threads.map(lambda p: reward(answer(first_answer(p)), p), found))
    for problem, full, part in zip(found, right, lazy, strict=True):
        assert full["score"] == full["all_passed"] == 1.0, problem.id
        assert 0.0 < part["score"] < 1.0 and not part["all_passed"], problem.id
