"""HumanEval (Chen et al., 2021): functions to complete. A test is an assertion of its `check`.

An assertion in a loop is one test together with the loop; statements before it are part of it.
Helper functions that a test calls are taken from the prompt, not from the program. An assertion
that does not call the program, such as `assert True`, is dropped.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metis.tasks.code.extraction import parsed
from metis.tasks.code.problem import Problem
from metis.tasks.code.published.asserts import as_test, header, names_in
from metis.tasks.code.tests import Test


def problem(row: Mapping[str, Any]) -> Problem:
    """A row of `openai/openai_humaneval`."""
    prompt, function = str(row["prompt"]), str(row["entry_point"])
    return Problem(
        id=f"humaneval:{row['task_id']}",
        statement=f"Complete this function.\n\n```python\n{prompt.strip()}\n```",
        tests=tuple(_tests(str(row["test"]), function, parsed(prompt).body)),
        category="humaneval",
        before=header(prompt, function),
        reference=f"{prompt}{row['canonical_solution']}",
        view=prompt.strip(),
    )


def _tests(code: str, function: str, prompt: Sequence[ast.stmt]) -> Iterator[Test]:
    check = next(
        node
        for node in parsed(code).body
        if isinstance(node, ast.FunctionDef) and node.name == "check"
    )
    before: list[ast.stmt] = []
    for statement in _Renamed(check.args.args[0].arg, function).visit(check).body:
        if any(isinstance(node, ast.Assert) for node in ast.walk(statement)):
            statements = [*before, statement]
            used = {name for each in statements for name in names_in(each)}
            if function in used:
                yield as_test([*_helpers(prompt, used - {function}), *statements], [function])
        elif not _is_idle(statement):
            before.append(statement)


def _helpers(prompt: Sequence[ast.stmt], used: set[str]) -> list[ast.stmt]:
    """The prompt's functions that a test calls, with the imports; empty if it calls none."""
    functions = [node for node in prompt if isinstance(node, ast.FunctionDef) and node.name in used]
    imports = [node for node in prompt if isinstance(node, ast.Import | ast.ImportFrom)]
    return [*imports, *map(_unannotated, functions)] if functions else []


def _unannotated(function: ast.FunctionDef) -> ast.FunctionDef:
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    function.returns = None
    return function


def _is_idle(statement: ast.stmt) -> bool:
    """True for a statement without effect: `pass`, or a lone string or name."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant() | ast.Name()):
            return True
    return False


class _Renamed(ast.NodeTransformer):
    """Replaces a name by another."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node
