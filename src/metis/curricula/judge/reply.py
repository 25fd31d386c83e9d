"""Parsing of a sampled judgment: the number in its last box, or a named failure (METIS, Eq. 7)."""

import re
from enum import StrEnum

from metis.core import Completion
from metis.signal import VARIANCE_MAX
from metis.text import OPENING, last_box


class Failure(StrEnum):
    """The reason that a reply gives no prediction."""

    NO_BOX = "no box"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "out of range"
    CUT_OFF = "cut off"
    DOES_NOT_FIT = "does not fit"


def parse(completion: Completion) -> float | Failure:
    """The prediction of a sampled reply; one that hit the token limit had not come to its end.

    A box in it may be a quotation of the instruction, which shows one.
    """
    return Failure.CUT_OFF if completion.finish == "length" else parse_variance(completion.text)


def parse_variance(text: str) -> float | Failure:
    r"""The number in the last balanced \boxed{} of a reply, if it is one in [0, 1/4].

    The reply is taken whole: it ends at its end-of-turn token, never at a word in it. Any plain
    decimal in range counts, on the list or not; a fraction is not a number.
    """
    content = last_box(text)
    if content is None:
        return Failure.CUT_OFF if OPENING in text else Failure.NO_BOX
    if len(content) > 64 or not _NUMBER.fullmatch(content.strip()):
        return Failure.NOT_A_NUMBER
    value = float(content) + 0.0  # -0.0 + 0.0 is 0.0
    return value if 0.0 <= value <= VARIANCE_MAX else Failure.OUT_OF_RANGE


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
