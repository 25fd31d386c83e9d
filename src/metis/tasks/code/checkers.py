"""Testlib checkers: C++ programs that decide whether an output is right."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Checker:
    """The C++ source of a checker that includes `testlib.h`."""

    source: str

    def check(self, stdin: str, output: str, expected: str) -> tuple[str, str] | None:
        """None where the output is right."""
        raise NotImplementedError
