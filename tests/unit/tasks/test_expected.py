"""What a right answer is, as tasks say it to who reads along."""

import pytest

from metis.core import Prompt
from metis.tasks.arithmetic import Arithmetic, ArithmeticTask
from metis.tasks.base import SingleTurn, expected
from metis.tasks.code.task import Code, CodeTask
from metis.tasks.code.tests import Asserts, Call, Io, written_down

ONE = Prompt("one", "What is one?")


def test_a_reference_is_what_is_expected():
    task = ArithmeticTask(Arithmetic(prompts=2, heldout=1), 0)
    [prompt, _] = task.training()
    assert expected(task, prompt) == str(task.answers[prompt.id])


def test_of_a_program_the_first_tests_are():
    task = CodeTask(Code(heldout=10), 0)
    texts = [expected(task, prompt) for prompt in task.training()]
    assert all(texts) and any("\n\nand " in text for text in texts)


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (Io("1 2\n", "3\n"), "input:\n1 2\noutput:\n3"),
        (Call("add", (1, "x"), [3]), "add(1, 'x') == [3]"),
        (Asserts("assert add(1) == 2", ("add",)), "assert add(1) == 2"),
    ],
)
def test_a_test_is_written_down(test, text):
    assert written_down([test]) == text
    assert written_down([test] * 4).endswith(f"{text}\n\nand 1 more")


def test_long_tests_are_cut():
    assert len(written_down([Io("1" * 10_000, "2" * 10_000)] * 5)) < 3000


class Broken:
    def episode(self, prompt):
        raise ValueError(prompt.id)


class Plain:
    def episode(self, prompt):
        return SingleTurn([], lambda reply: 0.0)


@pytest.mark.parametrize("task", [None, Broken(), Plain()])
def test_a_task_that_names_none_has_none(task):
    assert expected(task, ONE) == ""
