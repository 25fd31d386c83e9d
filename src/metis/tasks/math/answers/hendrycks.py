"""The normalisation of the MATH benchmark: answers that differ in writing only become one string.

What Hendrycks et al. (2021, arXiv 2103.03874) compare and the paper rewards, with all its quirks:
`\\text{ ` and everything after it is a unit, whatever two characters stand before an only `=` are
a name, and blanks do not matter even between digits. `writing.py` is the careful one.
"""

import re

_IGNORED = ("\n", "\\!")
_SIZES_AND_SIGNS = ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")
_UNIT = "\\text{ "
_BARE_POINT = re.compile(r"(^|[ {])\.")
_SHORT_NAME = re.compile(r"[^=]{0,2}=([^=]*)", re.DOTALL)
_QUOTIENT = re.compile(r"(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)")


def normalise(text: str) -> str:
    """The string that stands for an answer; ValueError for two units, or nothing under a root."""
    text = _without(text, _IGNORED).replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    text, *units = _without(text, _SIZES_AND_SIGNS).split(_UNIT)
    if len(units) > 1:
        raise ValueError("more than one unit")
    text = _BARE_POINT.sub(r"\g<1>0.", text.replace("\\%", ""))
    if named := _SHORT_NAME.fullmatch(text):
        text = named[1]
    text = _fractions(_roots(text).replace(" ", ""))
    if text == "0.5":
        return "\\frac{1}{2}"
    return _QUOTIENT.sub(r"\\frac{\1}{\2}", text) if _QUOTIENT.fullmatch(text) else text


def _without(text: str, ignored: tuple[str, ...]) -> str:
    for mark in ignored:
        text = text.replace(mark, "")
    return text


def _roots(text: str) -> str:
    """Roots of one character with braces."""
    head, *radicands = text.split("\\sqrt")
    if "" in radicands:
        raise ValueError("a root of nothing")
    return head + "".join(
        "\\sqrt" + (tail if tail[0] == "{" else f"{{{tail[0]}}}{tail[1:]}") for tail in radicands
    )


def _fractions(text: str) -> str:
    """Fractions of single characters with braces; none where one of them is cut short."""
    head, *tails = text.split("\\frac")
    written = [head]
    for tail in tails:
        if not tail:
            raise ValueError("a fraction of nothing")
        if tail[0] == "{":
            written.append(tail)
        elif len(tail) < 2:
            return text
        else:
            under = "{" if tail[1] == "{" else f"{{{tail[1]}}}"
            written.append(f"{{{tail[0]}}}{under}{tail[2:]}")
    return "\\frac".join(written)
