"""A benchmark's assertions as tests, isolated from the program as far as possible.

| assertion | test |
|---|---|
| calls functions of the program with plain data | `Asserts`: in another sandbox |
| uses objects, types or modules of the program | `Script`: in the program's process |
"""

import ast
import builtins
from collections.abc import Collection, Iterator, Sequence

from metis.tasks.code.extraction import parsed
from metis.tasks.code.tests import Asserts, Script, Test


def as_test(statements: Sequence[ast.stmt], functions: Collection[str], setup: str = "") -> Test:
    """The test of an assertion: the last statement, with those before it that it needs.

    `functions` are the program's; `setup` are statements that use the program's own classes.
    """
    code = "\n".join(ast.unparse(statement) for statement in statements)
    if setup:
        return Script(f"{setup}\n{code}")
    if all(_is_plain(statement, functions, _bound(statements)) for statement in statements):
        named = {name for statement in statements for name in names_in(statement)}
        return Asserts(code, tuple(name for name in functions if name in named))
    return Script(code)


def _is_plain(node: ast.AST, functions: Collection[str], bound: Collection[str]) -> bool:
    """True if the program only gets plain data: its names are called, others are bound here."""
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    return all(
        name.id in bound or (id(name) in called and (name.id in functions or _is_builtin(name.id)))
        for name in _loaded(node)
    )


def _is_builtin(name: str) -> bool:
    return hasattr(builtins, name)


def names_in(node: ast.AST) -> set[str]:
    """The names that code reads."""
    return {name.id for name in _loaded(node)}


def _loaded(node: ast.AST) -> Iterator[ast.Name]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part


def _bound(statements: Sequence[ast.stmt]) -> set[str]:
    return {name for statement in statements for name in _bindings(statement)}


def _bindings(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef):
            yield node.name


def defined(code: str) -> list[str]:
    """The functions that a module defines."""
    return [node.name for node in parsed(code).body if isinstance(node, ast.FunctionDef)]


def header(code: str, function: str) -> str:
    """The lines of a module before a function: its imports and its other definitions."""
    for node in parsed(code).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            return "\n".join(code.splitlines()[: first - 1]).strip()
    raise ValueError(f"no function {function!r}")
