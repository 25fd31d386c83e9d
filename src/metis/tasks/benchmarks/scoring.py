r"""The scores of an answer: the reward of training, and what is scored beside it.

The references of some benchmarks, such as Minerva's, are measured quantities, rounded and often in
e-notation (`4.5e33`), which an exact scorer does not recognise in another writing
(`4.5 \times 10^{33} \text{ erg}`). A number that is off by less than the tolerance is then right
beside the exact score, not instead of it. Programs that fail one test of many are nearly right, and
useless. Others have an official verdict, which is stricter than a continuous reward.
"""

import re
from fractions import Fraction

from metis.tasks.math.answers.equality import LONGEST, exact, final_answer
from metis.tasks.math.answers.literals import literal
from metis.tasks.math.answers.units import NAMES
from metis.tasks.math.answers.values import value

FAITHFUL = "faithful"
"""The score that counts: what training would give."""
NUMERIC = "numeric"
"""A score beside it: numbers within 1 % of the reference are right."""
ALL_PASSED = "all_passed"
"""A score beside it: programs that pass all tests are right, others wrong."""
TITLES = {
    NUMERIC: "numbers within 1 %",
    ALL_PASSED: "all tests passed",
    "official": "official verdict",
}
"""Scores beside the one that counts, as tables call them."""


def scores(reward: float, reply: str, reference: str, beside: str) -> dict[str, float]:
    """All scores of a reply with this reward, by name."""
    scored = {FAITHFUL: reward}
    if beside == NUMERIC:
        answer = final_answer(reply)
        near = answer is not None and close(answer, reference)
        scored[NUMERIC] = max(reward, float(near))
    elif beside == ALL_PASSED:
        scored[ALL_PASSED] = float(reward == 1.0)
    return scored


_SYMBOLS = """
A Å C F G H J K L M N Pa S T V W Wb Hz hz eV erg dyn dyne bar atm mol rad sr arcsec arcmin ly AU au
Ω pc nm um µm μm pm fm mg ug µg μg ms us µs μs ns ps mL ml dL kJ MJ kW MW GW kPa MPa GPa mbar kHz
MHz GHz THz keV MeV GeV TeV kV mV mA kN kpc Mpc kcal cal mM nM ppm yr yrs hrs Da mph kph
angstrom angstroms joule joules watt watts newton newtons pascal pascals kelvin kelvins volt volts
ampere amperes coulomb coulombs tesla hertz ergs liter liters litre litres mole moles parsec parsecs
per square cubic
"""
_NAME = "|".join(sorted({*NAMES, *_SYMBOLS.split()}, key=len, reverse=True))
_SPACE = r"(?:\\[ ,;:!]|\\quad|~|\s)*+"
_MARKED = r"\\(?:text|mathrm|operatorname|mathsf)\s*+\{[^{}]*+\}"
_FACTOR = (
    rf"(?>\\frac\s*+\{{\s*+{_MARKED}\s*+\}}\s*+\{{\s*+{_MARKED}\s*+\}}|{_MARKED}|"
    rf"\\(?:Omega|AA|circ)(?![A-Za-z])|(?:{_NAME})(?![A-Za-zµμΩÅ]))"
)
_EXPONENT = r"(?:\^(?:\{-?\d++\}|-?\d))?+"
_UNITS = re.compile(
    rf"(?<=[\d}}.])(?>{_SPACE}(?:(?:[/·]|\\cdot(?![a-z])){_SPACE})?+{_FACTOR}{_EXPONENT})++{_SPACE}$"
)
_RELATION = re.compile(r"=|\\approx|\\simeq|\\sim|≈")
_POINT_FRACTION = re.compile(r"(-?\d+)\./(\d+)")


def number(text: str) -> Fraction | None:
    """The number that a text ends in, after its last relation sign and without units; None where it
    is anything else."""
    return _read(_UNITS.sub("", _RELATION.split(text)[-1].strip()))


def close(answer: str, reference: str, tolerance: float = 0.01) -> bool:
    """True if an answer is the reference, or a number within a share of it; 50% is 50 and 0.5.

    References have no units: a letter after a number is a variable there.
    """
    if answer == reference:
        return True
    if len(answer) > LONGEST:
        return False
    if exact(answer, reference):
        return True
    given = number(answer)
    wanted = None if _RELATION.search(reference) else _read(reference)
    if given is None or wanted is None:
        return False
    percents = ("%" in answer) - ("%" in reference)
    readings = {given, given / 100 if percents > 0 else given * 100 if percents < 0 else given}
    return any(abs(one - wanted) <= Fraction(tolerance) * abs(wanted) for one in readings)


def _read(text: str) -> Fraction | None:
    """A number, or an expression without letters that is a real one."""
    read = literal(_POINT_FRACTION.sub(r"\1/\2", text))
    if read is not None:
        first = read.values[0]
        return first if read.kind in ("", "%") and isinstance(first, Fraction) else None
    result = value(text, letters=False)
    if isinstance(result, complex):
        return Fraction(result.real) if abs(result.imag) <= 1e-12 * abs(result) else None
    return result
