"""Results of a program's tests.

| kind | the program |
|---|---|
| `passed` | did what the test asks |
| `wrong` | gave another output or value, or broke an assertion |
| `error` | raised, ended with a status other than 0, or died of a signal |
| `timeout` | used up its CPU or wall time |
| `memory` | used up its memory |
| `output` | wrote too much |
| `blocked` | ended on something that the sandbox refuses: files, network, processes |
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Kind = Literal["passed", "wrong", "error", "timeout", "memory", "output", "blocked"]


@dataclass(frozen=True)
class Result:
    """One test: its kind, a line about it, the seconds it took.

    `in_process` when the test was decided in the program's own process.
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
    """The results of a program, in the order of its tests."""

    results: tuple[Result, ...]

    @property
    def passed(self) -> int:
        return sum(result.passed for result in self.results)

    @property
    def total(self) -> int:
        return len(self.results)

    @property
    def fraction(self) -> float:
        """The share of tests passed; 0 where there are none."""
        return self.passed / self.total if self.total else 0.0

    @property
    def kinds(self) -> dict[Kind, int]:
        """Tests of each kind that occurs."""
        return dict(Counter(result.kind for result in self.results))
