"""What a test in the program's own process relies on, as it was before the program ran.

`unittest` is imported first and then put aside: a program that imports it has a copy of its own,
and whatever it does to that is nothing to the test. What it does once its test runs is found
afterwards. A method passes only if it was called and nothing was raised: no result is asked.
"""

from __future__ import annotations  # the system's Python may be 3.9

import builtins
import functools
import sys
import types
from typing import Any

PACKAGE = "unittest"
PARTS = ("case", "suite", "mock", "async_case")
SHAPE = ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__")
"""What a function does, as far as it can be exchanged."""
LAZY = {"__annotations__", "__annotations_cache__", "__warningregistry__"}
"""Made by the interpreter when there is a reason."""


class Pristine:
    """Builtins, and `unittest` where a test needs it; made before the program runs."""

    def __init__(self, unittest: bool) -> None:
        self._builtins = dict(vars(builtins))
        self._loaded = sys.modules
        self._trace, self._profile = sys.settrace, sys.setprofile
        if unittest:
            for part in PARTS:
                __import__(f"{PACKAGE}.{part}")
            _ = self._loaded[PACKAGE].IsolatedAsyncioTestCase  # it is bound when it is asked for
        self._modules = {name: self._loaded.pop(name) for name in self._names()}
        self._before = _content(self._modules.values())

    def restore(self) -> None:
        """Undo what the program did while it was loaded."""
        self._trace(None)
        self._profile(None)
        for name, value in self._builtins.items():
            if vars(builtins).get(name) is not value:
                setattr(builtins, name, value)
        if self._modules:
            for name in self._names():
                del self._loaded[name]
            self._loaded.update(self._modules)

    def _names(self) -> list[str]:
        return [name for name in list(self._loaded) if name.partition(".")[0] == PACKAGE]

    def run(self, case: type[Any], method: str) -> None:
        """Run a method of a test case with its fixtures; an exception where it does not pass."""
        parent = self._modules[f"{PACKAGE}.case"].TestCase
        if not issubclass(case, parent):
            raise TypeError(f"{case.__name__} is no unittest.TestCase")
        test, ran = case(method), []
        called = getattr(test, method)

        @functools.wraps(called)
        def counted() -> Any:
            ran.append(method)
            return called()

        setattr(test, method, counted)
        before = _looked_up(case, parent)
        self._modules[f"{PACKAGE}.suite"].TestSuite([test]).debug()
        if ran != [method]:
            raise AssertionError(f"{method} was not run")
        shadowed = any(callable(before.get(name)) for name in vars(test) if name != method)
        if shadowed or not _same(before, _looked_up(case, parent)) or self.changed():
            raise AssertionError("the program changed its test")

    def changed(self) -> bool:
        """True where anything in `unittest`, or a builtin, is not what it was."""
        if not _same(self._builtins, vars(builtins)):
            return True
        after = _content(self._modules.values())
        return after.keys() != self._before.keys() or any(
            content.keys() != after[key].keys() or not _same(content, after[key])
            for key, content in self._before.items()
        )


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(name in after and after[name] is value for name, value in before.items())


def _looked_up(case: type[Any], parent: type[Any]) -> dict[str, Any]:
    """What each name of a test case means for this one, and its own functions with their code."""
    found: dict[str, Any] = {}
    for kind in reversed(case.__mro__):
        inherited = kind in parent.__mro__
        for name, value in vars(kind).items():
            if name not in LAZY and (inherited or name in found):
                found[name] = value
            if not inherited and isinstance(value, types.FunctionType):
                found[f"{kind.__qualname__}.{name}"] = value
                found[f"{kind.__qualname__}.{name}()"] = value.__code__
    return found


def _content(modules: Any) -> dict[int, dict[str, Any]]:
    """Modules, classes and functions by their ids, each with what it consists of."""
    found: dict[int, dict[str, Any]] = {}
    for module in modules:
        found[id(module)] = {
            name: value if callable(value) else None
            for name, value in vars(module).items()
            if name not in LAZY
        }
        for value in list(vars(module).values()):
            if getattr(value, "__module__", "") == module.__name__:
                _add(found, value)
    return found


def _add(found: dict[int, dict[str, Any]], value: Any) -> None:
    value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if id(value) in found:
        return
    if isinstance(value, types.FunctionType):
        found[id(value)] = {name: getattr(value, name, None) for name in SHAPE}
    elif isinstance(value, type):
        members = {name: item for name, item in vars(value).items() if name not in LAZY}
        found[id(value)] = members
        for item in members.values():
            if isinstance(item, (types.FunctionType, staticmethod, classmethod, type)):
                _add(found, item)
            elif isinstance(item, property):
                for part in filter(None, (item.fget, item.fset, item.fdel)):
                    _add(found, part)
