"""Tests of a program, their limits, and their results.

| test | the program | decided |
|---|---|---|
| `Io` | reads stdin, writes stdout | outside the sandbox |
| `Call` | one call with plain data | outside the sandbox |
| `Asserts` | called with plain data, from statements in another sandbox | in that sandbox |
| `Script` | runs in one process with the statements | in the program's process |

Plain data is None, numbers, strings, bytes, ranges, and lists, tuples, sets and dicts of them.

| result | the program |
|---|---|
| `passed` | passed the test |
| `wrong` | gave a wrong output or value, or failed an assertion |
| `error` | raised, exited with a status other than 0, or was killed by a signal |
| `timeout` | exceeded its CPU or wall time |
| `memory` | exceeded its memory |
| `output` | wrote too much |
| `blocked` | failed at something that the sandbox refuses: files, network, processes |
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from metis.errors import require, require_at_least

Kind = Literal["passed", "wrong", "error", "timeout", "memory", "output", "blocked"]


@dataclass(frozen=True)
class Checker:
    """A testlib checker: a C++ program that decides whether an output is correct."""

    source: str


@dataclass(frozen=True)
class Io:
    """Input on stdin, and the expected output: compared token by token, or by a checker."""

    stdin: str
    expected: str
    checker: Checker | None = None


@dataclass(frozen=True)
class Call:
    """A function call with plain data, and the expected value.

    `Class.method` is called on an instance created without arguments.
    """

    function: str
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True)
class Asserts:
    """Statements that call functions of the program by name, with plain data.

    They run in a sandbox of their own, so that the program cannot see them. The test passes if they
    raise nothing.
    """

    code: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """Statements that run in the program's process, after it: for tests that patch or pass objects.

    With `method`, such as `TestCases.test_1`, they define unittest classes, and that method is the
    test. A malicious program can deceive such a test; its result has `in_process`.
    """

    code: str
    method: str = ""


Test = Io | Call | Asserts | Script
SHOWN, LONGEST = 3, 400
"""Number of tests shown in transcripts, and maximum characters of each of their parts."""


def written_down(tests: Sequence[Test]) -> str:
    """The first tests as text, with the number of further ones."""
    parts = [_written(test) for test in tests[:SHOWN]]
    left = len(tests) - SHOWN
    return "\n\n".join([*parts, *([f"and {left:,} more"] if left > 0 else [])])


def _written(test: Test) -> str:
    if isinstance(test, Io):
        return f"input:\n{_start(test.stdin)}\noutput:\n{_start(test.expected)}"
    if isinstance(test, Call):
        arguments = ", ".join(map(repr, test.arguments))
        return f"{test.function}({_start(arguments)}) == {_start(repr(test.expected))}"
    return _start(test.code)


def _start(text: str) -> str:
    text = text.rstrip("\n")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


@dataclass(frozen=True)
class Limits:
    """Limits of one test.

    cpu_seconds: of all its processes together, checked every 25 ms.
    wall_seconds: from start to end; a test that takes longer is killed.
    memory_mb: resident memory of all its processes together, checked every 25 ms; also the address
        space of each.
    processes: at the same time, threads included.
    file_mb: of all its files together, and of each.
    output_kb: of stdout, and of a returned value.
    timeouts: after this many timeouts of a program its other tests count as timeouts without being
        run; 0 runs all.
    """

    cpu_seconds: float = 10.0
    wall_seconds: float = 20.0
    memory_mb: int = 1024
    processes: int = 32
    file_mb: int = 32
    output_kb: int = 4096
    timeouts: int = 0

    def __post_init__(self) -> None:
        least = {"memory_mb": 64, "processes": 1, "file_mb": 1, "output_kb": 1, "timeouts": 0}
        require_at_least(self, least, "limits.")
        for name in ("cpu_seconds", "wall_seconds"):
            value = getattr(self, name)
            require(value > 0, f"limits.{name}", value, "use more than 0")


@dataclass(frozen=True)
class Result:
    """The result of one test: kind, message, and seconds.

    `in_process`: the test was decided in the program's own process.
    """

    kind: Kind
    detail: str = ""
    seconds: float = 0.0
    in_process: bool = False

    @property
    def passed(self) -> bool:
        return self.kind == "passed"


@dataclass(frozen=True)
class Outcome:
    """The results of a program's tests, in order."""

    results: tuple[Result, ...]

    @property
    def passed(self) -> int:
        return sum(result.passed for result in self.results)

    @property
    def total(self) -> int:
        return len(self.results)

    @property
    def fraction(self) -> float:
        """The share of tests passed; 0 without tests."""
        return self.passed / self.total if self.total else 0.0

    @property
    def kinds(self) -> dict[Kind, int]:
        """Number of tests by kind of result."""
        return dict(Counter(result.kind for result in self.results))
