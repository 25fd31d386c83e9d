"""The normalisation of the MATH benchmark: answers that differ in writing only become one string.

What Hendrycks et al. (2021, arXiv 2103.03874) compare and the paper rewards: spaces, sizes of
brackets, degree, percent and dollar signs, a unit in \\text{ } and a short `x =` do not matter;
short-hand fractions and roots are written out. One deviation: only a unit that *ends* an answer is
dropped, since "2, 3, \\text{ and } 4" would otherwise equal "2, 3, \\text{ and } 5".
"""

import re

_IGNORED = ("\n", "\\!", "\\left", "\\right", "^{\\circ}", "^\\circ", "\\$", "\\%", "%")
_UNIT = re.compile(r"\\text\{ (?!and\b|or\b)[^{}]*\}[.\s]*$")
_SHORT_NAME = re.compile(r"^[^=]{1,2}=(?=[^=]*$)")
_BARE_POINT = re.compile(r"(^|[\s{])\.")
_ROOT = re.compile(r"\\sqrt([^{\[\\])")
_FRACTIONS = (
    (re.compile(r"\\frac([^{\\])([^{\\])"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac([^{\\])\{"), r"\\frac{\1}{"),
    (re.compile(r"^(-?\d+)/(\d+)$"), r"\\frac{\1}{\2}"),
    (re.compile(r"^0?\.5$"), r"\\frac{1}{2}"),
)


def normalise(text: str) -> str:
    """The string that stands for an answer; equal strings are equal answers."""
    for ignored in _IGNORED:
        text = text.replace(ignored, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    text = _UNIT.sub("", text)
    text = _BARE_POINT.sub(r"\g<1>0.", text)
    text = _SHORT_NAME.sub("", text.replace(" =", "=").strip())
    text = "".join(_ROOT.sub(r"\\sqrt{\1}", text).split())
    for pattern, written_out in _FRACTIONS:
        text = pattern.sub(written_out, text)
    return text
