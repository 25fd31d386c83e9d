"""Scores of mathematical answers: the last box of a response against a reference.

Three opinions, each dearer than the one before and asked only for what that left open:

exact     the strings of the MATH benchmark's normalisation are equal, or both are the same integer;
          this alone is what the paper's recipes use
literal   both are numbers, words or lists of them: the same value or not, exactly
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
    given, wanted = normalise(answer), normalise(reference)
    if not given:
        return False
    value = integer(given)
    return given == wanted or (value is not None and value == integer(wanted))


def settle(answer: str, reference: str) -> bool | None:
    """Whether two answers are the same, where that can be told without algebra; else None."""
    if _contradict(answer, reference):
        return False
    if exact(answer, reference):
        return True
    given, wanted = literal(answer), literal(reference)
    if given is not None and wanted is not None:
        return same_literal(given, wanted)
    unlike = _HEDGE.search(answer) or (wanted is not None and _stands_alone(wanted))
    return False if unlike else None


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


def _stands_alone(wanted: Literal) -> bool:
    """Whether a reference has no equal but another literal: words, and numerals in a base."""
    return any(
        isinstance(value, Numeral) or (isinstance(value, str) and len(value) > 1)
        for value in wanted.values
    )


def _contradict(answer: str, reference: str) -> bool:
    """Whether both name a variable, or a well-known unit, and not the same one."""
    names = [found[1] for text in (answer, reference) if (found := _NAMED_NUMBER.fullmatch(text))]
    units = [unit for text in (answer, reference) if (unit := split_unit(text.strip())[1])]
    return len(set(names)) == 2 or len(set(units)) == 2
