"""Answers whose value can be read off: numbers, words, numerals in a base, and lists of these.

Two such answers are the same or not without any algebra, and exactly: 1/3 is not 0.333333. What is
not a literal (roots, variables, matrices) is None, and left to a computer algebra system.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from metis.tasks.math.answers.units import split_unit
from metis.tasks.math.answers.writing import plain

_GROUPED = r"\d{1,3}(?:(?:,|\{,\}|\\,|\\ | )\d{3})+"
_INTEGER = re.compile(rf"([+-]?)(\d+|{_GROUPED})(?:\.0*)?")
_DECIMAL = re.compile(rf"([+-]?)({_GROUPED}|\d*)\.(\d*)(?:\\(?:overline|bar)\{{(\d+)\}})?")
_FRACTION = re.compile(r"([+-]?)(?:\\frac\{([+-]?\d+)\}\{([+-]?\d+)\}|(\d+)/(\d+))")
_MIXED = re.compile(r"([+-]?)(\d+)\\frac\{(\d+)\}\{(\d+)\}")
_POWER = re.compile(
    r"(.+?)(?:[eE]([+-]?\d{1,3})|(?:\\times|\\cdot|\*)10\^(?:\{([+-]?\d{1,3})\}|(\d)))"
)
_LONGEST = 4000
"""Characters of what is read as a number; Python reads 4300 digits."""
_NO_DIGIT = re.compile(r"\D")
_NUMERAL = re.compile(
    r"(?:\\text\{)?(-?[0-9A-Z]+(?:\.[0-9A-Z]+)?)\}?_(?:\{\(?(\d+)\)?\}|\(?(\d+)\)?)"
)
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|textnormal|mbox)\{([^{}]*)\}")
_NAME = re.compile(r"^\s*+[A-Za-z]\s*+=\s*+(?=\\(?:text|mbox|math))")
_JOINED = re.compile(r",?\s*+\\text\{\s*+,?\s*+(?:and|or)\s*+\}|,?\s++(?:and|or)\s++")
_BRACKETS = {"(": (")", "]"), "[": (")", "]"), "\\{": ("\\}",)}


class Numeral(NamedTuple):
    """Digits in a base. It equals only itself, for the base is part of what was asked."""

    digits: str
    base: int


Single = Fraction | float | str | Numeral
"""A number (infinities as floats), a word, or a numeral in a base."""


@dataclass(frozen=True)
class Literal:
    """Values, and how they were written: in which brackets, as a "list", with "%", or as one."""

    values: tuple[Single, ...]
    kind: str = ""


def integer(text: str) -> int | None:
    """The integer an answer writes: leading zeros, a plus sign, a decimal part of zeros and
    thousands separators (`1,000`, `1{,}000`, `1\\,000`) allowed; none where it is too long."""
    match = _INTEGER.fullmatch(text) if len(text) <= _LONGEST else None
    return int(match[1] + _NO_DIGIT.sub("", match[2])) if match else None


def literal(text: str) -> Literal | None:
    """The literal that an answer is, or None."""
    if len(text) > _LONGEST:
        return None
    bare = split_unit(text.strip("$ \n").rstrip(".,; "))[0]
    if (value := _single(bare)) is not None:
        return Literal((value,), "%" if "%" in text else "")
    words = _TEXT.fullmatch(bare)
    joined = plain(_JOINED.sub(",", words[1] if words else bare))
    if joined.startswith("\\pm") and isinstance(number := _number(joined[3:]), Fraction):
        return Literal((number, -number), "list")
    kind, parts = _parts(joined)
    read = [_single(f"\\text{{{part}}}" if words else part) for part in parts]
    values = tuple(value for value in read if value is not None)
    if not kind or len(values) < len(read):
        return None
    return Literal(values, "" if kind == "()" and len(values) == 1 else kind)


def same_literal(answer: Literal, reference: Literal) -> bool:
    """True if two literals are equal: tuples and intervals in order and with their brackets,
    sets and plain lists in any order; 10% is 10 as well as 0.1."""
    kinds = {answer.kind, reference.kind}
    if kinds == {"", "%"}:
        (percent,), (number,) = (answer.values, reference.values)[:: 1 if answer.kind else -1]
        return number == percent or (isinstance(percent, Fraction) and number == percent / 100)
    if kinds == {"list"}:
        return Counter(answer.values) == Counter(reference.values)
    if kinds <= {"list", "\\{\\}"}:
        return set(answer.values) == set(reference.values)
    if kinds == {"list", "()"}:
        return answer.values == reference.values
    return answer == reference


def _parts(joined: str) -> tuple[str, list[str]]:
    """The items between commas, and the kind of brackets; no kind where nothing is listed.

    `x=1,x=2` is a list of the values of x, and `y=2,x=1` a tuple in the order of the names.
    """
    opening = next((mark for mark in _BRACKETS if joined.startswith(mark)), "")
    closing = next((mark for mark in _BRACKETS.get(opening, ()) if joined.endswith(mark)), "")
    inside = joined[len(opening) : len(joined) - len(closing)] if closing else joined
    parts = inside.split(",")
    names = [part.partition("=")[0] for part in parts if "=" in part]
    if not names:
        return (opening + closing if closing else "list" if len(parts) > 1 else ""), parts
    if len(names) < len(parts) or len(parts) == 1:
        return "", parts
    if len(set(names)) == 1:
        return "list", parts
    return ("()" if len(set(names)) == len(names) else ""), sorted(parts)


def _single(bare: str) -> Single | None:
    """A number, an infinity, a numeral in a base, or a word."""
    written = plain(bare)
    if (number := _number(written)) is not None:
        return number
    if match := _NUMERAL.fullmatch(written):
        return Numeral(match[1], int(match[2] or match[3]))
    return _word(bare)


def _number(written: str) -> Fraction | float | None:
    if match := _POWER.fullmatch(written):
        factor, power = _factor(match[1]), int(match[2] or match[3] or match[4])
        return None if factor is None else factor * Fraction(10) ** power
    if written in ("\\infty", "+\\infty", "-\\infty"):
        return -math.inf if written[0] == "-" else math.inf
    return _factor(written)


def _factor(written: str) -> Fraction | None:
    """A number without a power of ten."""
    if (whole := integer(written)) is not None:
        return Fraction(whole)
    if (match := _DECIMAL.fullmatch(written)) and (match[2] or match[3] or match[4]):
        whole_part = _NO_DIGIT.sub("", match[2])
        return _signed(match[1], _decimal(whole_part, match[3], match[4] or ""))
    if match := _FRACTION.fullmatch(written):
        over, under = int(match[2] or match[4]), int(match[3] or match[5])
        return _signed(match[1], Fraction(over, under)) if under else None
    if (match := _MIXED.fullmatch(written)) and int(match[3]) < int(match[4]):
        return _signed(match[1], int(match[2]) + Fraction(int(match[3]), int(match[4])))
    return None


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def _decimal(whole: str, digits: str, repeating: str) -> Fraction:
    value = Fraction(int(whole + digits or "0"), 10 ** len(digits))
    if repeating:
        value += Fraction(int(repeating), 10 ** len(digits) * (10 ** len(repeating) - 1))
    return value


def _word(bare: str) -> str | None:
    """Text in \\text{}, or letters that are no product of variables. Case matters in single letters
    only, brackets around it never."""
    text = " ".join(_TEXT.sub(r"\1", _NAME.sub("", bare)).split()).strip("()., ")
    if not text.replace(" ", "").isalpha():
        return None
    is_name = len(text) == 1 or len(text) > 3 or text != text.lower()
    if not is_name and _TEXT.search(bare) is None:
        return None
    return text.casefold() if len(text) > 1 else text
