"""Problems as JSON: the ground truth column of a prepared file.

Arguments and values of calls are Python literals, to keep tuples and sets. A problem's checker is
stored once.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from metis.tasks.code.problem import Problem
from metis.tasks.code.tests import Asserts, Call, Checker, Io, Limits, Script, Test


def written(problem: Problem) -> str:
    """A problem's tests, limits, reference and checker as JSON."""
    checkers = {test.checker for test in problem.tests if isinstance(test, Io)} - {None}
    assert len(checkers) <= 1, f"{problem.id} has several checkers"
    record = {
        "tests": [_written(test) for test in problem.tests],
        "limits": asdict(problem.limits),
        "before": problem.before,
        "reference": problem.reference,
        "libraries": problem.libraries,
        "checker": next((checker.source for checker in checkers if checker), ""),
    }
    return json.dumps({key: value for key, value in record.items() if value}, ensure_ascii=False)


def read(name: str, statement: str, record: Mapping[str, Any], **about: Any) -> Problem:
    """The problem of a record; raises ValueError, KeyError or TypeError if the record is invalid.

    User-written tests may have plain JSON instead of literals.
    """
    source = str(record.get("checker") or "")
    checker = Checker(source) if source else None
    tests = tuple(_test(test, checker) for test in record["tests"])
    if not tests:
        raise ValueError("no tests")
    return Problem(
        name,
        statement,
        tests,
        limits=Limits(**record.get("limits", {})),
        before=str(record.get("before") or ""),
        reference=str(record.get("reference") or ""),
        libraries=tuple(record.get("libraries", ())),
        **about,
    )


def loads(text: str) -> dict[str, Any]:
    """Parse a record."""
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return record


def _written(test: Test) -> dict[str, Any]:
    if isinstance(test, Io):
        return {"stdin": test.stdin, "expected": test.expected}
    if isinstance(test, Call):
        values = {"arguments": repr(test.arguments), "expected": repr(test.expected)}
        return {"function": test.function, **values}
    if isinstance(test, Asserts):
        return {"asserts": test.code, "functions": list(test.functions)}
    return {"script": test.code, "method": test.method}


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(
            f"{text!r} is not a Python literal; a call's `arguments` are a list, such as [1, 2]"
        ) from None


def _test(given: Mapping[str, Any], checker: Checker | None) -> Test:
    if "stdin" in given:
        return Io(str(given["stdin"]), str(given["expected"]), checker)
    if "function" in given:
        arguments, expected = given["arguments"], given["expected"]
        if isinstance(arguments, str):
            arguments, expected = _literal(arguments), _literal(expected)
        return Call(str(given["function"]), tuple(arguments), expected)
    if "asserts" in given:
        return Asserts(str(given["asserts"]), tuple(given["functions"]))
    return Script(str(given["script"]), str(given.get("method", "")))
