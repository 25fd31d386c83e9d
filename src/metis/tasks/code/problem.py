"""A programming problem: statement, tests, and a reference solution."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from metis.core import Chat, Prompt
from metis.tasks.code.statement import FUNCTION, PROGRAM, prose, wrap
from metis.tasks.code.tests import Asserts, Call, Io, Limits, Test


@dataclass(frozen=True)
class Problem:
    """A problem with tests.

    statement   the text that the policy reads, without the instruction
    tests       equally weighted tests of an answer
    before      code put before every answer, such as a benchmark's imports
    reference   a program that passes all tests; empty if none is known
    libraries   packages besides the standard library that reference or tests import
    view        the text that a judge reads; by default the prose of the statement
    """

    id: str
    statement: str
    tests: tuple[Test, ...]
    category: str = ""
    difficulty: float | None = None
    limits: Limits = field(default_factory=Limits)
    before: str = ""
    reference: str = ""
    view: str = ""
    libraries: tuple[str, ...] = ()

    @property
    def prompt(self) -> Prompt:
        text = self.view or prose(self.statement)
        return Prompt(self.id, text, self.category, self.difficulty)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the tests call, without repeats."""
        return tuple(dict.fromkeys(_called(self.tests)))

    @cached_property
    def instruction(self) -> str:
        """The instruction to write a program or a function, as its tests need."""
        return PROGRAM if all(isinstance(test, Io) for test in self.tests) else FUNCTION

    def chat(self, instruction: str = "") -> Chat:
        return wrap(self.statement, instruction or self.instruction)

    def whole(self) -> "Problem":
        """The problem with its tests, which are loaded already."""
        return self

    def program(self, answer: str) -> str:
        """The program to run for an answer."""
        return f"{self.before}\n{answer}" if self.before else answer


def _called(tests: tuple[Test, ...]) -> Iterator[str]:
    for test in tests:
        if isinstance(test, Call):
            yield test.function
        elif isinstance(test, Asserts):
            yield from test.functions
