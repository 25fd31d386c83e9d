"""BigCodeBench (Zhuo et al., 2024): functions that use libraries.

A test is one method of a problem's unittest case. It runs in the program's process, since many
methods patch what the function calls.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from metis.tasks.code.extraction import parsed
from metis.tasks.code.problem import Problem
from metis.tasks.code.published.asserts import header
from metis.tasks.code.tests import Limits, Script

LIMITS = Limits(cpu_seconds=20.0, wall_seconds=40.0, memory_mb=4096, processes=64)
"""Libraries such as pandas need seconds and threads to import."""


def problem(row: Mapping[str, Any]) -> Problem:
    """A row of `bigcode/bigcodebench`."""
    prompt, function, test = (str(row[key]) for key in ("complete_prompt", "entry_point", "test"))
    return Problem(
        id=f"bigcodebench:{row['task_id']}",
        statement=f"Complete this function.\n\n```python\n{prompt.strip()}\n```",
        tests=tuple(Script(test, method) for method in _methods(test)),
        category="bigcodebench",
        limits=LIMITS,
        before=header(prompt, function),
        reference=f"{prompt}{row['canonical_solution']}",
        view=prompt.strip(),
        libraries=tuple(sorted(libraries(row) - sys.stdlib_module_names)),
    )


def _methods(code: str) -> Iterator[str]:
    for node in parsed(code).body:
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(b) for b in node.bases):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name.startswith("test"):
                    yield f"{node.name}.{item.name}"


def libraries(row: Mapping[str, Any]) -> frozenset[str]:
    """The packages that a problem names, or that its reference or its tests import."""
    named = {str(name).partition(".")[0] for name in ast.literal_eval(str(row["libs"]))}
    code = f"{row['complete_prompt']}{row['canonical_solution']}\n\n{row['test']}"
    for node in ast.walk(parsed(code)):
        if isinstance(node, ast.Import):
            named |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named.add(node.module.partition(".")[0])
    return frozenset(named)
