"""Equality of outputs and of returned values, decided outside the sandbox."""

import math
from typing import Any

TOLERANCE = 1e-6
DEEPEST = 100


def same_output(output: str, expected: str) -> bool:
    """Equal tokens, white space apart; numbers with a decimal point within 1e-6, relative or
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


def same_value(value: Any, expected: Any, depth: int = 0) -> bool:
    """Python's equality of plain data, with a list equal to a tuple, and floats within 1e-6."""
    if depth > DEEPEST:
        return False
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(expected)
            and all(same_value(a, b, depth + 1) for a, b in zip(value, expected, strict=True))
        )
    if isinstance(expected, dict):
        return (
            isinstance(value, dict)
            and value.keys() == expected.keys()
            and all(same_value(value[key], expected[key], depth + 1) for key in expected)
        )
    if isinstance(expected, float) and isinstance(value, int | float):
        return _close(value, expected)
    return bool(value == expected)


def _close(value: float, expected: float) -> bool:
    try:
        number = float(value)
    except OverflowError:
        return False
    if math.isnan(expected):
        return math.isnan(number)
    return math.isclose(number, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
