"""Scores of mathematical answers: the last box of a response against a reference.

Four opinions, each dearer than the one before and asked only for what that left open:

exact     the strings of the MATH benchmark's normalisation are equal, or both are the same integer;
          this alone is what the paper's recipes use
literal   both are numbers, words or lists of them: the same or not, exactly
value     both are expressions: exactly when rational; different when they differ at a point
verifier  a computer algebra system (math-verify), in processes that can be killed
"""

import re
from typing import Protocol

from metis.boxes import last_box
from metis.tasks.answers.hendrycks import normalise
from metis.tasks.answers.literals import (
    Literal,
    Numeral,
    integer,
    literal,
    same_literal,
)
from metis.tasks.answers.units import split_unit
from metis.tasks.answers.values import same_value, value

LONGEST = 500
"""Characters of an answer beyond which it is wrong unread; no reference of MATH has 200."""

_ROOMY_BOX = re.compile(r"\\(?:boxed\s+|fbox\s*)\{")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s${}\\]+)")
_NAMED_NUMBER = re.compile(r"\s*([A-Za-z])\s*=(?:[^=A-Za-z]|\\[dt]?frac|\\sqrt|\\pi)*")
_HEDGE = re.compile(r"\b(?:or|and|not|maybe)\s+[A-Za-z]")


class Opinion(Protocol):
    """Whoever says whether two answers are equal that are not settled by their writing."""

    def same(self, answer: str, reference: str) -> bool: ...


def final_answer(response: str) -> str | None:
    """What the last closed box of a response holds; `\\boxed 5` counts where no box has braces."""
    content = last_box(_ROOMY_BOX.sub(r"\\boxed{", response))
    if content is None and (bare := _BARE_BOX.findall(response)):
        return str(bare[-1]).rstrip(".,;")
    return content


def exact(answer: str, reference: str) -> bool:
    """Equal under the normalisation of the MATH benchmark, integers as integers."""
    if (integers := _same_integers(answer, reference)) is not None:
        return integers
    given, wanted = normalise(answer), normalise(reference)
    return given == wanted or _same_integers(given, wanted) is True


def settle(answer: str, reference: str) -> bool | None:
    """Whether two answers are the same, where that can be told without algebra; else None."""
    if (integers := _same_integers(answer, reference)) is not None:
        return integers
    if _contradict(answer, reference):
        return False
    if exact(answer, reference):
        return True
    if not answer.strip() or not reference.strip():
        return False
    given, wanted = literal(answer), literal(reference)
    if given is not None and wanted is not None:
        return same_literal(given, wanted)
    if _HEDGE.search(answer) or (wanted is not None and _stands_alone(wanted)):
        return False
    left, right = value(answer), value(reference)
    if left is not None and right is not None:
        equations = "=" in answer and "=" in reference
        return None if equations else same_value(left, right)
    one_number = left is not None or right is not None
    return False if one_number and (_many(answer, given) or _many(reference, wanted)) else None


def same(answer: str, reference: str, verifier: Opinion | None = None) -> bool:
    """Whether an answer equals the reference; without a verifier only `exact` counts."""
    if len(answer) > LONGEST:
        return False
    if verifier is None or len(reference) > LONGEST:
        return exact(answer, reference)
    settled = settle(answer, reference)
    return verifier.same(answer, reference) if settled is None else settled


def score(response: str, reference: str, verifier: Opinion | None = None) -> float:
    """1.0 when the last box of a response holds the reference answer, else 0.0."""
    answer = final_answer(response)
    return float(answer is not None and same(answer, reference, verifier))


def _many(text: str, read: Literal | None) -> bool:
    """Whether an answer is a list or a matrix, which no single number equals."""
    return "\\begin{" in text or (read is not None and len(read.values) > 1)


def _stands_alone(wanted: Literal) -> bool:
    """Whether a reference has no equal but another literal: words, and numerals in a base."""
    return any(
        isinstance(value, Numeral) or (isinstance(value, str) and len(value) > 1)
        for value in wanted.values
    )


def _same_integers(answer: str, reference: str) -> bool | None:
    """Whether two integers are the same; None where one of them is none."""
    given = integer(answer)
    wanted = None if given is None else integer(reference)
    return None if wanted is None else given == wanted


def _contradict(answer: str, reference: str) -> bool:
    """Whether both name a variable, or a well-known unit, and not the same one."""
    names = [found[1] for text in (answer, reference) if (found := _NAMED_NUMBER.fullmatch(text))]
    units = [unit for text in (answer, reference) if (unit := split_unit(text.strip())[1])]
    return len(set(names)) == 2 or len(set(units)) == 2
