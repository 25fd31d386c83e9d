"""Values of expressions at a point: two that differ there are different, without any algebra.

Letters stand for fixed numbers between 1/2 and 3/2, i and e for themselves. What is rational is
computed exactly. Only what reads in one way is read: sums, products, quotients, powers, fractions
and roots; anything else is None, and so is what would grow too large.
"""

import cmath
import math
import re
from fractions import Fraction

from metis.tasks.math.answers.units import split_unit
from metis.tasks.math.answers.writing import plain

Value = Fraction | complex

_TOKEN = re.compile(
    r"\\frac|\\sqrt|\\pi|\\cdot|\\times|\d+(?:\.\d+)?|[a-zA-Z](?![a-zA-Z]{2})|[-+*/^(){}]"
)
_LARGEST = 4000
"""Bits of an exact power."""
_LONGEST = 4000
"""Characters of what is read; Python reads 4300 digits."""
_LETTERS = {"i": 1j, "e": complex(math.e)}


class _Unreadable(Exception):
    pass


def value(text: str, letters: bool = True) -> Value | None:
    """The value of an expression with the letters set, or None; as it is for one without any."""
    if "%" in text or len(text) > _LONGEST:
        return None
    written = plain(split_unit(text.strip("$ \n").rstrip(".,; "))[0])
    tokens = _TOKEN.findall(written)
    if not tokens or sum(map(len, tokens)) != len(written):
        return None
    if not letters and any(token.isalpha() and token not in _LETTERS for token in tokens):
        return None
    try:
        result = _Reader(tokens).read()
    except (_Unreadable, ArithmeticError, RecursionError):
        return None
    return result if isinstance(result, Fraction) or cmath.isfinite(result) else None


def same_value(a: Value, b: Value) -> bool | None:
    """Equality of two values: rationals exactly; others may differ, or be left open."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    try:
        a, b = complex(a), complex(b)
        return None if abs(a - b) <= 1e-6 * max(abs(a), abs(b)) + 1e-12 else False
    except OverflowError:
        return None


class _Reader:
    """Recursive descent over tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = [*tokens, ""]
        self.at = 0

    def read(self) -> Value:
        result = self.sum()
        self.take("")
        return result

    @property
    def next(self) -> str:
        return self.tokens[self.at]

    def take(self, expected: str) -> None:
        if self.next != expected:
            raise _Unreadable
        self.at += 1

    def taken(self, *wanted: str) -> str:
        """The next token if it is wanted, else nothing."""
        if self.next not in wanted:
            return ""
        self.at += 1
        return self.tokens[self.at - 1]

    def sum(self) -> Value:
        total = self.signed()
        while sign := self.taken("+", "-"):
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def signed(self) -> Value:
        return -self.product() if self.taken("+", "-") == "-" else self.product()

    def product(self) -> Value:
        total = self.power()
        while self.next not in ("", "+", "-", ")", "}"):
            if self.taken("/"):
                total = total / self.power()
                if self.next not in ("", "+", "-", ")", "}"):
                    raise _Unreadable  # 1/2x reads in two ways
            elif self.taken("*", "\\cdot", "\\times"):
                total = total * self.power()
            elif self.next[0].isdigit() or (self.next == "\\frac" and self.after_number()):
                raise _Unreadable  # 3\frac{1}{2} may be a mixed number
            else:
                total = total * self.power()
        return total

    def after_number(self) -> bool:
        return self.tokens[self.at - 1][0].isdigit()

    def power(self) -> Value:
        base = self.primary()
        if not self.taken("^"):
            return base
        exponent = self.primary()
        if self.next == "^":
            raise _Unreadable
        if isinstance(base, Fraction) and isinstance(exponent, Fraction):
            if exponent.denominator == 1:
                bits = max(abs(base.numerator), base.denominator).bit_length()
                if bits * abs(exponent) > _LARGEST:
                    raise _Unreadable
                return base**exponent.numerator
            if base < 0:
                raise _Unreadable
        return complex(base) ** complex(exponent)

    def primary(self) -> Value:
        token = self.next
        self.at += 1
        if token == "(":
            return self.closed(")")
        if token == "{":
            return self.closed("}")
        if token == "\\frac":
            return self.group() / self.group()
        if token == "\\sqrt":
            return _root(self.group())
        if token == "\\pi":
            return complex(math.pi)
        if token and token[0].isdigit():
            return Fraction(token)
        if token.isalpha():
            return _LETTERS.get(token, complex(0.5 + ord(token) * 0.6180339887498949 % 1))
        raise _Unreadable

    def group(self) -> Value:
        self.take("{")
        return self.closed("}")

    def closed(self, end: str) -> Value:
        result = self.sum()
        self.take(end)
        return result


def _root(radicand: Value) -> Value:
    if isinstance(radicand, Fraction) and radicand >= 0:
        over, under = math.isqrt(radicand.numerator), math.isqrt(radicand.denominator)
        if (over * over, under * under) == (radicand.numerator, radicand.denominator):
            return Fraction(over, under)
    return cmath.sqrt(complex(radicand))
