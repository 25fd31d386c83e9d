"""The embedded problem set: 66 problems in six categories and five levels, made for this project.

They are in `problems/`, one file per category. A problem with `function` asks for a function, any
other for a program that reads stdin and writes stdout. The first two tests are its examples.
"""

import ast
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from metis.tasks.code import records
from metis.tasks.code.problem import Problem
from metis.tasks.code.statement import prose
from metis.tasks.code.tests import Call, Io, Limits, Test

CATEGORIES = ("numbers", "strings", "lists", "simulation", "search", "graphs")
EXAMPLES = 2
"""Number of tests that are shown in the statement."""
LIMITS = Limits(cpu_seconds=2.0, wall_seconds=6.0, memory_mb=512)


@cache
def problems() -> tuple[Problem, ...]:
    """All problems by category, easiest first."""
    return tuple(_problem(category, given) for category in CATEGORIES for given in _read(category))


def _read(category: str) -> list[dict[str, Any]]:
    file = resources.files("metis.tasks.code").joinpath("problems", f"{category}.toml")
    rows: list[dict[str, Any]] = tomllib.loads(file.read_text("utf-8"))["problem"]
    return rows


def _problem(category: str, given: dict[str, Any]) -> Problem:
    function = given.get("function")
    tests = [{"function": function, **test} if function else test for test in given["tests"]]
    record = {"tests": tests, "reference": given["reference"]}
    bare = records.read(f"embedded:{given['id']}", "", record)
    parts = [given["statement"], *_signature(given["reference"], function), _examples(bare.tests)]
    return Problem(
        bare.id,
        "\n\n".join(parts),
        bare.tests,
        category,
        float(given["difficulty"]),
        LIMITS,
        reference=bare.reference,
        view=prose(given["statement"]),
    )


def _signature(reference: str, function: str | None) -> list[str]:
    """The signature of the requested function."""
    for node in ast.parse(reference).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first = f"def {function}({ast.unparse(node.args)}):"
            return [f"The function begins with\n```python\n{first}\n```"]
    return []


def _examples(tests: tuple[Test, ...]) -> str:
    return "\n".join(["Examples", *(_example(test) for test in tests[:EXAMPLES])])


def _example(test: Test) -> str:
    if isinstance(test, Call):
        arguments = ", ".join(map(repr, test.arguments))
        return f"{test.function}({arguments}) is {test.expected!r}"
    assert isinstance(test, Io)
    return f"Input:\n{test.stdin}Output:\n{test.expected}".rstrip()
