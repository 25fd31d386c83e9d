"""Functions that only this process has: closures, lambdas, those of a notebook.

Their names are `<memory>:NAME-DIGEST`. The digest is of the code with the plain values that it
holds or names (defaults, captured variables, globals), so that another function has another name.
"""

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from metis.errors import MetisError

PLACE = "<memory>"
"""Stands where an import string has its module or file."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_PLAIN = (str, bytes, int, float, complex, type(None))


def is_in_memory(name: object) -> bool:
    """True for the name of a function that is in no file."""
    return isinstance(name, str) and name.startswith(f"{PLACE}:")


def importable(given: Any) -> bool:
    """True for a class or function that a later process finds again by its module and name."""
    module, name = getattr(given, "__module__", None), getattr(given, "__qualname__", None)
    home = sys.modules.get(module or "")
    if home is None or not name or (module == "__main__" and not _is_script(home)):
        return False
    try:
        return reduce(getattr, name.split("."), home) is given
    except AttributeError:
        return False


def _is_script(main: ModuleType) -> bool:
    """True where the program is a file, false for a notebook and standard input."""
    file = Path(getattr(main, "__file__", None) or "")
    return file.suffix == ".py" and file.is_file()


def remember(function: Callable[..., Any]) -> str:
    """Keep a function as long as this process lives; returns its name."""
    label = getattr(function, "__name__", type(function).__name__).strip("<>")
    described = "\n".join(_described(function, frozenset()))
    digest = hashlib.sha256(described.encode()).hexdigest()[:8]
    name = f"{PLACE}:{label}-{digest}"
    _FUNCTIONS[name] = function
    return name


def recall(key: str, name: str) -> Callable[..., Any]:
    """The function of a name; refused in a process that was not given it."""
    if name not in _FUNCTIONS:
        label = name.removeprefix(f"{PLACE}:").rpartition("-")[0]
        section, _, setting = key.rpartition(".")
        raise MetisError(
            f"{key} = {name!r}: this function was given from Python and is in no file: give it "
            f"again from Python, {setting}={label}; or put it into a file, "
            f"{section}.{setting}=path/to/file.py:{label}"
        )
    return _FUNCTIONS[name]


def _described(value: Any, around: frozenset[int]) -> Iterator[str]:
    """Lines that are the same in every process for the same code and plain values."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    if isinstance(value, FunctionType) and importable(value):
        yield f"{value.__module__}.{value.__qualname__}"
        return
    yield type(value).__qualname__
    if id(value) in around:
        return
    around = around | {id(value)}
    if isinstance(value, set | frozenset):
        yield from sorted("\n".join(_described(part, around)) for part in value)
        return
    for part in _parts(value):
        yield from _described(part, around)


def _parts(value: Any) -> Iterator[Any]:
    """The parts of a value that tell one function from another."""
    if isinstance(value, CodeType):
        yield from (value.co_code, value.co_names, value.co_varnames, value.co_consts)
    elif isinstance(value, FunctionType):
        yield from (value.__code__, value.__defaults__, value.__kwdefaults__)
        yield list(_captured(value))
        yield list(_globals(value))
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from value
    elif callable(value):
        yield from (vars(type(value)).get("__call__"), getattr(value, "__dict__", None))


def _globals(function: FunctionType) -> Iterator[Any]:
    """Functions and plain values that a function names, such as those of other cells."""
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, (FunctionType, *_PLAIN)):
            yield name, value


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _captured(function: FunctionType) -> Iterator[Any]:
    """The values of a closure; a variable that is not set yet has none."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents
