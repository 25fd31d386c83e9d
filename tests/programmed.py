"""Answers to programming problems, as models write them."""

from metis.tasks.code.tests import Io


def answer(code):
    """A response with a program."""
    return f"Let me think.\n```python\n{code}\n```"


def first_answer(problem):
    """A program that knows the answer to the first test, and gives it to all of them."""
    first = problem.tests[0]
    if isinstance(first, Io):
        return f"print({first.expected!r}, end='')"
    return f"def {first.function}(*arguments):\n    return {first.expected!r}"
