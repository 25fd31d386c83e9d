"""Tests of a program.

| test | the program | decided |
|---|---|---|
| `Io` | reads stdin, writes stdout | outside the sandbox |
| `Call` | one call with plain data | outside the sandbox |
| `Asserts` | called with plain data by statements in another sandbox | in that sandbox |
| `Script` | shares its process with the statements | in the program's process |

Plain data is None, numbers, strings, bytes, ranges, and lists, tuples, sets and dicts of them.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Checker:
    """A program in C++ that includes `testlib.h` and decides whether an output is right."""

    source: str


@dataclass(frozen=True)
class Io:
    """A text on standard input, and the output that is expected: equal tokens, or a checker's
    word."""

    stdin: str
    expected: str
    checker: Checker | None = None


@dataclass(frozen=True)
class Call:
    """A call of a function with plain data, and the value that it has to return.

    `Class.method` is called on an instance that is made without arguments.
    """

    function: str
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True)
class Asserts:
    """Statements that call functions of the program by their names, with plain data.

    They run in a sandbox of their own, so the program cannot see them. The test is passed when they
    end without an exception.
    """

    code: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """Statements that run in the program's own process, after it; for tests that patch, or that
    pass objects.

    With `method`, such as `TestCases.test_1`, they define unittest classes, and that method is the
    test. A program that means to can deceive such a test; its result says `in_process`.
    """

    code: str
    method: str = ""


Test = Io | Call | Asserts | Script
