"""Numbers that are near enough: for measured quantities, such as those of Minerva's problems.

Its references are rounded and often in e-notation (`4.5e33`), which a string comparison never finds
in `4.5 \\times 10^{33} \\text{ erg}`. Beside the faithful score, not instead of it: it takes a
number that is off by less than the tolerance for right.
"""

import re
from fractions import Fraction

from metis.tasks.answers import LONGEST, exact
from metis.tasks.answers.literals import literal

_RELATION = re.compile(r"=|\\approx|\\simeq|\\sim|≈")
_SPACE = r"(?:\\[ ,;:!]|\\quad|~|\s)*"
_FACTOR = r"(?:\\(?:text|mathrm|operatorname|mathsf)\s*\{[^{}]*\}|[A-Za-zµμΩÅ]{2,}|/\s*[A-Za-z])"
_EXPONENT = r"(?:\^(?:\{-?\d+\}|-?\d))?"
_UNITS = re.compile(rf"(?<=[\d}}.])(?:{_SPACE}[/·]?{_SPACE}{_FACTOR}{_EXPONENT})+{_SPACE}$")
_POINT_FRACTION = re.compile(r"(-?\d+)\./(\d+)")


def number(text: str) -> Fraction | None:
    """The number that a text ends in, after its last relation sign and without units; None where it
    is anything else."""
    last = _UNITS.sub("", _RELATION.split(text)[-1].strip())
    read = literal(_POINT_FRACTION.sub(r"\1/\2", last))
    if read is None or len(read.values) != 1 or not isinstance(read.values[0], Fraction):
        return None
    return read.values[0]


def close(answer: str, reference: str, tolerance: float = 0.01) -> bool:
    """Whether an answer is the reference, or a number within a share of it."""
    if len(answer) > LONGEST:
        return False
    if exact(answer, reference):
        return True
    given, wanted = number(answer), number(reference)
    if given is None or wanted is None:
        return False
    return abs(given - wanted) <= Fraction(tolerance) * abs(wanted)
