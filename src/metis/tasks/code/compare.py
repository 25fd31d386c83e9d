"""Comparison of outputs and returned values, outside the sandbox."""

import hashlib
import json
import math
from typing import Any

from metis.tasks.code.inside.plain import pack, unpack

TOLERANCE = 1e-6
ALIKE = {"tuple": "list", "frozenset": "set"}
DEEPEST = 100
"""Maximum nesting depth of lists, and characters of a number."""


def same_output(output: str, expected: str) -> bool:
    """True if all whitespace-separated tokens are equal; decimal numbers within 1e-6, relative or
    absolute."""
    given, wanted = output.split(), expected.split()
    return len(given) == len(wanted) and all(map(_same_token, given, wanted))


def _same_token(given: str, wanted: str) -> bool:
    if given == wanted:
        return True
    if not _decimal(wanted) or len(given) > DEEPEST:
        return False
    try:
        number = float(given)
    except ValueError:
        return False
    return math.isclose(number, float(wanted), rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _decimal(token: str) -> bool:
    whole, point, part = token.lstrip("-").partition(".")
    digits = whole + part
    return bool(point) and digits.isascii() and digits.isdigit() and len(digits) < DEEPEST


def same_value(packed: Any, expected: Any) -> bool:
    """True if a packed value equals plain data, as in Python, but lists equal tuples, and floats
    are compared within 1e-6.

    The value is untrusted: none of its objects is hashed, and no error is raised.
    """
    try:
        return _same(packed, pack(expected), 0)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError):
        return False
    except (TypeError, ValueError):
        return False


def _same(given: Any, wanted: Any, depth: int) -> bool:
    """Equality of two packed values."""
    if depth > DEEPEST:
        return False
    kind, content = _opened(given)
    wanted_kind, wanted_content = _opened(wanted)
    if kind != wanted_kind:
        return False
    if kind == "number":
        return _same_number(content, wanted_content)
    if kind == "list":
        return len(content) == len(wanted_content) and all(
            _same(a, b, depth + 1) for a, b in zip(content, wanted_content, strict=True)
        )
    if kind in ("dict", "set") and len(content) != len(wanted_content):
        return False  # before anything of a large one is looked at
    if kind == "dict":
        items, wanted_items = _by_key(content, depth), _by_key(wanted_content, depth)
        return items.keys() == wanted_items.keys() and all(
            _same(items[key], wanted_items[key], depth + 1) for key in items
        )
    return _digest(given, depth) == _digest(wanted, depth)


def _opened(packed: Any) -> tuple[str, Any]:
    """The kind and the content of a packed value; lists and tuples are one kind, and so are all
    numbers."""
    if isinstance(packed, int | float):
        return "number", packed
    if not isinstance(packed, dict):
        return "text", packed
    ((name, content),) = packed.items()
    if name in ("int", "float", "complex"):
        return "number", unpack(packed)
    return ALIKE.get(name, str(name)), content


def _by_key(pairs: list[list[Any]], depth: int) -> dict[bytes, Any]:
    return {_digest(key, depth + 1): item for key, item in pairs}


def _digest(packed: Any, depth: int) -> bytes:
    """A hash of fixed size that is the same for equal values."""
    if depth > DEEPEST:
        raise ValueError("too deep")
    kind, content = _opened(packed)
    if kind == "number":
        whole = isinstance(content, int) or (isinstance(content, float) and content.is_integer())
        parts = [(f"{int(content):x}" if whole else repr(content)).encode()]
    elif kind in ("list", "set"):
        parts = [_digest(item, depth + 1) for item in content]
    elif kind == "dict":
        parts = [_digest(key, depth + 1) + _digest(item, depth + 1) for key, item in content]
    else:
        parts = [json.dumps(content).encode()]
    ordered = sorted(parts) if kind in ("set", "dict") else parts
    return hashlib.sha256(b"\0".join([kind.encode(), *ordered])).digest()


def _same_number(given: Any, wanted: Any) -> bool:
    if not isinstance(wanted, float) or not isinstance(given, int | float):
        return bool(given == wanted)
    if math.isnan(wanted):
        return math.isnan(given)
    return math.isclose(given, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
