"""LiveCodeBench (Jain et al., 2024): contest problems, most with input and output.

Private tests are a compressed pickle of a string. The unpickler used here refuses all classes, so
that a file cannot execute code. Problems from LeetCode call a method of `Solution`.
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping
from typing import Any

from metis.tasks.code.problem import Problem
from metis.tasks.code.tests import Call, Io, Limits, Test

LEVELS = {"easy": 1.0, "medium": 2.0, "hard": 3.0}
LIMITS = Limits(cpu_seconds=6.0, wall_seconds=12.0, memory_mb=2048)
IMPORTS = """\
from typing import *
from collections import *
from functools import *
from itertools import *
from heapq import *
from bisect import *
from math import *
import bisect, collections, functools, heapq, itertools, math, random, re, string
"""
"""Names that LeetCode's starter code uses without importing them."""


def problem(row: Mapping[str, Any]) -> Problem:
    """A row of `livecodebench/code_generation_lite`."""
    given = [*json.loads(row["public_test_cases"]), *private(str(row["private_test_cases"]))]
    about = json.loads(row["metadata"] or "{}")
    starter = str(row["starter_code"] or "")
    statement = str(row["question_content"]).strip()
    if starter:
        statement += f"\n\nThe code begins with\n```python\n{starter.strip()}\n```"
    return Problem(
        id=f"livecodebench:{row['question_id']}",
        statement=statement,
        tests=tuple(_test(test, about) for test in given),
        category=str(row["platform"]),
        difficulty=LEVELS.get(str(row["difficulty"]).lower()),
        limits=LIMITS,
        before=IMPORTS if starter else "",
    )


def private(text: str) -> list[dict[str, Any]]:
    """The private tests, from JSON or from a compressed pickle of a JSON string."""
    try:
        tests = json.loads(text)
    except ValueError:
        tests = json.loads(_unpickled(text))
    if not isinstance(tests, list):
        raise ValueError("private tests are no list")
    return tests


def _unpickled(text: str) -> str:
    try:
        packed = zlib.decompress(base64.b64decode(text, validate=True))
        value = _TextOnly(io.BytesIO(packed)).load()
    except (binascii.Error, zlib.error, pickle.UnpicklingError, EOFError, IndexError) as error:
        raise ValueError(f"private tests cannot be decoded: {error}") from None
    if not isinstance(value, str):
        raise ValueError(f"private tests are {type(value).__name__}, not a text")
    return value


class _TextOnly(pickle.Unpickler):
    """Unpickles plain values; refuses classes and functions."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, identity: Any) -> Any:
        raise pickle.UnpicklingError("it names an object from elsewhere")


def _test(given: Mapping[str, Any], about: Mapping[str, Any]) -> Test:
    stdin, expected = str(given["input"]), str(given["output"])
    if given["testtype"] != "functional":
        return Io(stdin, expected)
    arguments = tuple(json.loads(line) for line in stdin.splitlines() if line.strip())
    return Call(f"Solution.{about['func_name']}", arguments, json.loads(expected))
