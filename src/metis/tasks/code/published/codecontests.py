"""CodeContests+ (Wang et al., 2025): contest problems with generated tests and testlib checkers.

The paper's three filters keep 4,432 of its 11,690 problems: a Python program among the correct
submissions, at most 25 tests, no figure in the statement. Interactive problems and those without
tests cannot be scored and are dropped as well.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from metis.tasks.code.problem import Problem
from metis.tasks.code.tests import Checker, Io, Limits

COLUMNS = (
    *("source", "id", "title", "description", "time_limit", "memory_limit"),
    *("checker", "correct_submissions", "test_cases"),
)
MOST_TESTS = 25
PYTHON = ("py3", "python3")
REASONS = ("no Python reference", "no tests", "too many tests", "figure", "interactive")
"""Reasons to drop a problem; the first that applies is reported."""

_FIGURE = re.compile(
    r"<image>|<img\b|!\[|\\includegraphics|\b(?:diagram|illustration)s?\b"
    r"|\bfigures?\b(?! out\b)|\bpictures?\b(?! (?:an?|that|yourself)\b)"
    r"|\bimages? (?:below|above|shows?)\b|\bshown? in the image\b",
    re.IGNORECASE,
)
_INTERACTIVE = re.compile(
    r"\bthis is an interactive problem\b|^\s*interaction\s*$", re.IGNORECASE | re.MULTILINE
)


def refusal(row: Mapping[str, Any]) -> str:
    """The reason to drop a row; empty to keep it."""
    tests, text = row["test_cases"] or (), str(row["description"])
    holds = (
        not reference(row),
        not tests,
        len(tests) > MOST_TESTS,
        _FIGURE.search(text) is not None,
        _INTERACTIVE.search(text) is not None,
    )
    return next((reason for reason, true in zip(REASONS, holds, strict=True) if true), "")


def reference(row: Mapping[str, Any]) -> str:
    """The shortest Python program among the correct submissions; empty if there is none."""
    submitted: Sequence[Mapping[str, Any]] = row["correct_submissions"] or ()
    programs = [str(one["code"]) for one in submitted if str(one["language"]).lower() in PYTHON]
    return min(programs, key=len, default="")


def problem(row: Mapping[str, Any]) -> Problem:
    """A row of `ByteDance-Seed/Code-Contests-Plus`, config 1x to 5x."""
    source = str(row.get("checker") or "")
    checker = Checker(source) if source else None
    seconds = max(1.0, float(row["time_limit"] or 0) / 1000)
    return Problem(
        id=f"codecontests:{str(row['source']).lower()}/{row['id']}",
        statement=str(row["description"]).strip(),
        tests=tuple(
            Io(str(test["input"]), str(test["output"]), checker) for test in row["test_cases"]
        ),
        category=str(row["source"]).lower(),
        limits=Limits(
            cpu_seconds=seconds,
            wall_seconds=2 * seconds + 1,
            memory_mb=max(256, int(row["memory_limit"] or 0)),
        ),
        reference=reference(row),
    )
