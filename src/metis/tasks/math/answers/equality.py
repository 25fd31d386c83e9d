"""Equality of two mathematical answers.

exact     the strings of the MATH benchmark's normalisation are equal, or both are the same integer;
          this alone is what the paper's recipes use

With a verifier, four opinions, each dearer than the one before and asked for what that left open:

claims    the same text is right; another unit, another variable or a false equation is wrong
literal   both are numbers, words or lists of them: the same or not, exactly
value     both are expressions: exactly when rational; different when they differ at a point
verifier  a computer algebra system (math-verify), in processes that can be killed
"""

import re
from typing import Protocol

from metis.tasks.math.answers.claims import compared, number
from metis.tasks.math.answers.hendrycks import normalise
from metis.tasks.math.answers.literals import Literal, Numeral, integer, literal, same_literal
from metis.tasks.math.answers.units import split_unit
from metis.tasks.math.answers.values import same_value
from metis.tasks.math.answers.writing import commands, plain
from metis.text import last_box

LONGEST = 500
"""Characters of an answer beyond which it is wrong unread; no reference of MATH has 200."""

_MANY = re.compile(
    r"(?!.*\\(?:gcd|lcm|max|min|operatorname)).*(?:\\begin\{|\\cup|(?<!\\),(?!(?:\\!|\})?\s*\d{3}(?!\d)))",
    re.DOTALL,
)
"""A matrix, a union or a list, which no single number equals; commas may separate thousands."""
_SEVERAL = re.compile(
    r"[<>≤≥≠]|\\(?:[lg]eq?|neq?|[lg]t)(?:slant)?(?![A-Za-z])"
    r"|^[-+]?[\d.]++(?: [\d.]++)++$|^(?:-\d*+|\d++)[A-Za-z]="
)
"""A relation, numbers in a row, or 3x = 6, which no single number equals either."""
_WORDS = re.compile(
    r"\\(?:text\w*+|math(?:rm|bf|it|sf|tt)|[mh]box|operatorname)\s*+\{([^{}]*+)\}"
    r"(?:\s*+\^\s*+(?:\{\s*+-?\d++\s*+\}|-?\d))?+"
)
"""Words, or a unit and its power."""
_IN_WORDS = re.compile(r"[\s(]\d|\bbase\b|^[^A-Za-z]*\d")
_ASIDE = re.compile(r"\d.*\0[^=]*(?:\d|\\[dt]?frac)", re.DOTALL)
"""A number with words behind it, which stand as NUL, and another number after them."""
_LETTER = re.compile(r"[A-Za-z]")
_BASED = re.compile(r"\d[)}]*+\s*+(?:\\[,;!]\s*+)*+_[^=]*$")
"""Digits with a base, at the end of an equation or alone."""
_HEDGE = re.compile(r"\b(?:or|and|not|maybe)\s+[A-Za-z]")


class Opinion(Protocol):
    """Decides whether two answers are equal that their text alone does not settle."""

    def same(self, answer: str, reference: str) -> bool: ...


def exact(answer: str, reference: str) -> bool:
    """Equal under the normalisation of the MATH benchmark, integers as integers."""
    if (integers := _same_integers(answer, reference)) is not None:
        return integers
    try:
        given, wanted = normalise(answer), normalise(reference)
    except ValueError:  # as the benchmark does with what it cannot normalise
        return answer == reference
    return given == wanted or _same_integers(given, wanted) is True


def settle(answer: str, reference: str) -> bool | None:
    """True or False where equality can be told without algebra; else None."""
    if (integers := _same_integers(answer, reference)) is not None:
        return integers
    if answer.strip() == reference.strip():
        return True
    claims = compared(answer, reference)
    return False if claims is None else _settled(*claims)


def same(answer: str, reference: str, verifier: Opinion | None = None) -> bool:
    """True if an answer equals the reference; without a verifier only `exact` counts."""
    if answer == reference:
        return True
    if len(answer) > LONGEST:
        return False
    if verifier is None or len(reference) > LONGEST:
        return exact(answer, reference)
    settled = settle(answer, reference)
    if settled is None and (claims := compared(answer, reference)):
        return verifier.same(commands(claims[0]), commands(claims[1]))
    return settled is True


def _settled(answer: str, reference: str) -> bool | None:
    """Like `settle`, by the exact values of the answer and the reference."""
    if not answer.strip() or not reference.strip():
        return False
    if (written := _written(answer)) and written == _written(reference):
        return True
    given, wanted = literal(answer), literal(reference)
    if given is not None and wanted is not None:
        return same_literal(given, wanted)
    if _HEDGE.search(answer) or (wanted is not None and _stands_alone(wanted)):
        return False
    left, right = number(answer, given), number(reference, wanted)
    if left is not None and right is not None:
        return None if "=" in answer and "=" in reference else same_value(left, right)
    if left is None and right is None:
        return False if _BASED.search(answer) and _BASED.search(reference) else None
    other = answer if left is None else reference
    return False if _no_number(other) else None


def _no_number(text: str) -> bool:
    """True of what no single number equals."""
    return any((_MANY.match(text), _SEVERAL.search(plain(text)), _aside(text), _BASED.search(text)))


def _aside(text: str) -> bool:
    """True of a number with words behind it, and another number or a base in or after them."""
    first = re.search(r"\d", text)
    words = [found for found in _WORDS.finditer(text) if first and found.start() > first.start()]
    if any(_IN_WORDS.search(found[1]) for found in words):
        return True
    marked = _WORDS.sub(lambda found: "\0" if _LETTER.search(found[1]) else found[0], text)
    return _ASIDE.search(marked) is not None


def _written(text: str) -> str:
    """An answer in one writing, without its unit."""
    return plain(split_unit(text.strip("$ \n").rstrip(".,; "))[0])


def _stands_alone(wanted: Literal) -> bool:
    """True if a reference has no equal but another literal: words, and numerals in a base."""
    return any(
        isinstance(value, Numeral) or (isinstance(value, str) and len(value) > 1)
        for value in wanted.values
    )


def _same_integers(answer: str, reference: str) -> bool | None:
    """Equality of two integers; None where one of them is none."""
    given = integer(answer)
    wanted = None if given is None else integer(reference)
    return None if wanted is None else given == wanted


_ROOMY_BOX = re.compile(r"\\(?:boxed\s+|fbox\s*)\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s${}\\]+)")


def final_answer(response: str) -> str | None:
    """The content of the last closed box; `\\boxed 5` counts where no box has braces."""
    if "\\fbox" in response or response.count("\\boxed") > response.count("\\boxed{"):
        response = _ROOMY_BOX.sub(r"\\boxed{", response)
    content = last_box(response)
    if content is None and (bare := _BARE_BOX.findall(response)):
        return str(bare[-1]).rstrip(".,;")
    return content


def score(response: str, reference: str, verifier: Opinion | None = None) -> float:
    """1.0 when the last box of a response holds the reference answer, else 0.0."""
    answer = final_answer(response)
    return float(answer is not None and same(answer, reference, verifier))
