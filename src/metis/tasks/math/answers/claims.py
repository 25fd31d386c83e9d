"""Claims of an answer beside its value: a unit, a variable, an equation, an approximation.

The normalisation of the MATH benchmark drops these; here an answer that claims another unit than
the reference, or that 6 = 5, is wrong whatever number it ends in.
"""

import re
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

from metis.tasks.math.answers.literals import Literal, literal
from metis.tasks.math.answers.units import measured, unit
from metis.tasks.math.answers.values import Value, same_value, value

_NAMED_NUMBER = re.compile(r"\s*([A-Za-z])\s*=(?:[^=A-Za-z]|\\[dt]?frac|\\sqrt|\\pi)*")
_NAME = re.compile(r"\s*(?:[A-Za-z]|\\[A-Za-z]+)\s*")
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Za-z]")
_ABOUT = re.compile(r"\\approx|\\simeq|\\sim(?![a-z])|≈")
_ONLY_ABOUT = re.compile(rf"^\s*(?:{_ABOUT.pattern})")
_OPEN_END = re.compile(r"(?:\\[lc]?dots[bcmio]?|…|\.\.)[\s.$]*$")
_CONVERTED = {"degree^1", "percent^1"}
"""Units that are numbers themselves: 180^\\circ is pi, and 50% is 0.5."""
_ROUNDED = Fraction(1, 100)
"""Largest relative error of an approximation."""


def compared(answer: str, reference: str) -> tuple[str, str] | None:
    """An answer and a reference without their claims; None where these contradict."""
    if _contradict(answer, reference):
        return None
    if _ONLY_ABOUT.match(reference):
        answer, reference = _ONLY_ABOUT.sub("", answer), _ONLY_ABOUT.sub("", reference)
    exactly, *nearly = _ABOUT.split(answer)
    if not _true(exactly, nearly):
        return None
    given = nearly[-1] if nearly and _NAME.fullmatch(exactly) else exactly
    return given, _ABOUT.split(reference)[0]


def number(text: str, read: Literal | None) -> Value | None:
    """The single number that an answer is, or its value at a point; None for all else."""
    if read is not None and not read.kind and isinstance(read.values[0], Fraction):
        return read.values[0]
    return value(text)


class _Side(NamedTuple):
    """One side of an equation that is a number, and the unit behind it."""

    number: Value
    unit: str

    def comparable(self, other: "_Side") -> bool:
        """True if the numbers have to be equal: they need not in a conversion of units."""
        one, another = sorted((self.unit, other.unit))
        if one and not (one + another).count("\\"):
            return one == another
        return another not in _CONVERTED


def _side(text: str) -> _Side | None:
    """None where it has letters beside its unit, or is no number."""
    bare, name = measured(text)
    if _LETTER.search(bare) or (read := number(bare, literal(bare))) is None:
        return None
    return _Side(read, name)


def _near(a: Value, b: Value) -> bool:
    try:
        return abs(complex(a) - complex(b)) <= _ROUNDED * abs(complex(a))
    except OverflowError:
        return False


def _true(exactly: str, nearly: list[str]) -> bool:
    """False if two numbers are equated that differ."""
    equal = [side for text in exactly.split("=") if (side := _side(text)) is not None]
    rounded = [side for text in nearly if (side := _side(text)) is not None]
    return not any(
        first.comparable(other) and same_value(first.number, other.number) is False
        for first, other in combinations(equal, 2)
    ) and all(
        _near(equal[0].number, other.number) or not equal[0].comparable(other)
        for other in rounded
        if equal
    )


def _contradict(answer: str, reference: str) -> bool:
    """True if both name a variable or a well-known unit, and not the same one, or one goes on."""
    names = [match[1] for text in (answer, reference) if (match := _NAMED_NUMBER.fullmatch(text))]
    units = [unit_name for text in (answer, reference) if (unit_name := unit(text))]
    goes_on = bool(_OPEN_END.search(answer)) != bool(_OPEN_END.search(reference))
    return goes_on or len(set(names)) == 2 or len(set(units)) == 2
