"""HumanEval (Chen et al., 2021): functions to complete. A test is an assertion of its `check`.

An assertion in a loop is one test, with the loop; what stands before it is a part of it.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from metis.tasks.code.problem import Problem
from metis.tasks.code.published.asserts import as_test, defined, header
from metis.tasks.code.syntax import parsed
from metis.tasks.code.tests import Test


def problem(row: Mapping[str, Any]) -> Problem:
    """A row of `openai/openai_humaneval`."""
    prompt, function = str(row["prompt"]), str(row["entry_point"])
    return Problem(
        id=f"humaneval:{row['task_id']}",
        statement=f"Complete this function.\n\n```python\n{prompt.strip()}\n```",
        tests=tuple(_tests(str(row["test"]), function, defined(prompt))),
        category="humaneval",
        before=header(prompt, function),
        reference=f"{prompt}{row['canonical_solution']}",
        view=prompt.strip(),
    )


def _tests(code: str, function: str, functions: list[str]) -> Iterator[Test]:
    check = next(
        node
        for node in parsed(code).body
        if isinstance(node, ast.FunctionDef) and node.name == "check"
    )
    before: list[ast.stmt] = []
    for statement in _Renamed(check.args.args[0].arg, function).visit(check).body:
        if any(isinstance(node, ast.Assert) for node in ast.walk(statement)):
            yield as_test([*before, statement], functions)
        elif not _is_idle(statement):
            before.append(statement)


def _is_idle(statement: ast.stmt) -> bool:
    """True of a statement without effect: `pass`, a text or a name on a line of its own."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant() | ast.Name()):
            return True
    return False


class _Renamed(ast.NodeTransformer):
    """A name in the place of another."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node
