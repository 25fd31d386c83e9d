"""Protects a test that runs in the program's own process from monkey-patching by the program.

Builtins and the harness's own modules are restored after the program is loaded, by calls prepared
before that look nothing up. The harness has its own copy of `json`.
`unittest` is imported before and set aside: a program that imports it gets another copy, and can
only patch that one. Patches while the test runs are detected after it. A method passes only if it
was called and raised nothing: no result object is trusted.
"""

from __future__ import annotations  # the system's Python may be 3.9

import builtins
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

PACKAGE = "unittest"
OWN = "json"
PARTS = ("case", "suite", "mock", "async_case")
SHAPE = ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__")
"""The attributes that define what a function does and can be replaced."""
LAZY = {"__annotations__", "__annotations_cache__", "__warningregistry__"}
"""Created by the interpreter on demand."""


class Pristine:
    """A snapshot, from before the program runs, of builtins, the harness's modules (`own`, their
    namespaces), and `unittest` if the test needs it.

    undo: calls that restore builtins and the harness's modules, down to the code of functions.
    kinds: the classes of these modules, with the names of their members.
    """

    def __init__(self, unittest: bool, *own: dict[str, Any]) -> None:
        self._builtins = dict(vars(builtins))
        self._loaded = sys.modules
        taken = [self._loaded.pop(name) for name in self._names(OWN)]
        self._own = [*own, globals(), *map(vars, taken)]
        found = _content(self._own, whole=True)
        undo: list[Callable[[], object]] = [partial(vars(builtins).update, self._builtins)]
        self.undo = (*undo, *_undoing(self._own, found))
        kinds = (value for names in self._own for value in _defined(names))
        self.kinds = tuple((kind, set(vars(kind))) for kind in kinds if isinstance(kind, type))
        self._own_before = found
        self._trace, self._profile = sys.settrace, sys.setprofile
        if unittest:
            for part in PARTS:
                __import__(f"{PACKAGE}.{part}")
            _ = self._loaded[PACKAGE].IsolatedAsyncioTestCase  # it is bound when it is asked for
        self._modules = {name: self._loaded.pop(name) for name in self._names(PACKAGE)}
        self._namespaces = [vars(module) for module in self._modules.values()]
        self._before = _content(self._namespaces)

    def restore(self) -> None:
        """Remove trace functions and bring back `unittest`; called after all of `undo`."""
        self._trace(None)
        self._profile(None)
        if self._modules:
            for name in self._names(PACKAGE):
                del self._loaded[name]
            self._loaded.update(self._modules)

    def _names(self, package: str) -> list[str]:
        return [name for name in list(self._loaded) if name.partition(".")[0] == package]

    def run(self, case: type[Any], method: str) -> None:
        """Run a method of a test case with its fixtures; raises unless it passes."""
        parent = self._modules[f"{PACKAGE}.case"].TestCase
        if not issubclass(case, parent):
            raise TypeError(f"{case.__name__} is no unittest.TestCase")
        test, ran = case(method), []
        called = getattr(test, method)

        def counted() -> Any:
            ran.append(method)
            return called()

        vars(counted).update(vars(called), __wrapped__=called)
        setattr(test, method, counted)
        before = _looked_up(case, parent)
        self._modules[f"{PACKAGE}.suite"].TestSuite([test]).debug()
        if ran != [method]:
            raise AssertionError(f"{method} was not run")
        shadowed = any(callable(before.get(name)) for name in vars(test) if name != method)
        if shadowed or not _same(before, _looked_up(case, parent)) or self.changed():
            raise AssertionError("the program changed its test")

    def changed(self) -> bool:
        """True if `unittest`, a builtin or the harness was patched."""
        return (
            not _same(self._builtins, vars(builtins))
            or self.own_changed()
            or not _alike(self._before, _content(self._namespaces))
        )

    def own_changed(self) -> bool:
        return not _alike(self._own_before, _content(self._own, whole=True))


def _undoing(
    namespaces: list[dict[str, Any]], found: dict[int, dict[str, Any]]
) -> Iterator[Callable[[], object]]:
    """Calls that restore modules, and the classes and functions defined in them."""
    for names in namespaces:
        yield names.clear
        yield partial(names.update, dict(names))
    for names in namespaces:
        for value in _defined(names):
            for item in (value, *(vars(value).values() if isinstance(value, type) else ())):
                if isinstance(item, FunctionType):
                    for name in ("__code__", "__defaults__", "__kwdefaults__"):
                        yield partial(object.__setattr__, item, name, found[id(item)][name])
            if isinstance(value, type):
                for name in found[id(value)].keys() - {"__dict__", "__weakref__", "__doc__"}:
                    yield partial(type.__setattr__, value, name, vars(value)[name])


def _defined(names: dict[str, Any]) -> list[Any]:
    """The functions and classes that a module defines, not those it imports."""
    return [
        value
        for value in list(names.values())
        if isinstance(value, (FunctionType, type))
        and getattr(value, "__module__", "") == names["__name__"]
    ]


def _alike(before: dict[int, dict[str, Any]], after: dict[int, dict[str, Any]]) -> bool:
    return before.keys() == after.keys() and all(
        content.keys() == after[key].keys() and _same(content, after[key])
        for key, content in before.items()
    )


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(name in after and after[name] is value for name, value in before.items())


def _looked_up(case: type[Any], parent: type[Any]) -> dict[str, Any]:
    """What each name of a test case resolves to, and its own functions with their code."""
    found: dict[str, Any] = {}
    for kind in reversed(case.__mro__):
        inherited = kind in parent.__mro__
        for name, value in vars(kind).items():
            if name not in LAZY and (inherited or name in found):
                found[name] = value
            if not inherited and isinstance(value, FunctionType):
                found[f"{kind.__qualname__}.{name}"] = value
                found[f"{kind.__qualname__}.{name}()"] = value.__code__
    return found


def _content(namespaces: list[dict[str, Any]], whole: bool = False) -> dict[int, dict[str, Any]]:
    """Modules, classes and functions by id, each with its members; of data in modules only the
    names, unless `whole`."""
    found: dict[int, dict[str, Any]] = {}
    for names in namespaces:
        found[id(names)] = {
            name: value if whole or callable(value) else None
            for name, value in names.items()
            if name not in LAZY
        }
        for value in list(names.values()):
            if getattr(value, "__module__", "") == names.get("__name__"):
                _add(found, value)
    return found


def _add(found: dict[int, dict[str, Any]], value: Any) -> None:
    value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if id(value) in found:
        return
    if isinstance(value, FunctionType):
        found[id(value)] = {name: getattr(value, name, None) for name in SHAPE}
    elif isinstance(value, type):
        members = {name: item for name, item in vars(value).items() if name not in LAZY}
        found[id(value)] = members
        for item in members.values():
            if isinstance(item, (FunctionType, staticmethod, classmethod, type)):
                _add(found, item)
            elif isinstance(item, property):
                for part in filter(None, (item.fget, item.fset, item.fdel)):
                    _add(found, part)
