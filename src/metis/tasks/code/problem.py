"""A programming problem: what is asked, the tests of an answer, and a program that passes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from metis.core import Chat, Prompt
from metis.tasks.code.statement import FUNCTION, PROGRAM, prose, wrap
from metis.tasks.code.tests import Asserts, Call, Io, Limits, Test


@dataclass(frozen=True)
class Problem:
    """A problem with tests.

    statement   the whole text that the policy reads, without an instruction
    tests       all of them count, each the same
    before      code that stands before every answer, such as imports of a benchmark
    reference   a program that passes all tests; empty where none is known
    libraries   packages beside the standard library that reference or tests import
    view        the text that a judge reads; empty is the prose of the statement
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
        """The names that tests call, each once."""
        return tuple(dict.fromkeys(_called(self.tests)))

    @cached_property
    def instruction(self) -> str:
        """The instruction that suits its tests."""
        return PROGRAM if all(isinstance(test, Io) for test in self.tests) else FUNCTION

    def chat(self, instruction: str = "") -> Chat:
        return wrap(self.statement, instruction or self.instruction)

    def whole(self) -> "Problem":
        """The problem with its tests: itself."""
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
