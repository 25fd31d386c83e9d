"""The wording of a problem, normalised: without typography and figures."""

import re
import unicodedata

_FIGURE = re.compile(r"\[asy\].*?\[/asy\]", re.DOTALL)
_TYPOGRAPHY = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|text|textbf|textit|mathrm|mathbf|operatorname"
    r"|quad|qquad|[,;:! ])(?![a-zA-Z])"
)
_FRACTION = re.compile(r"\\[dt]?frac(?![a-zA-Z])\s*(\d?)")  # \frac12 is a half
_WORD = re.compile(r"[a-z]+|\d+|[+\-*/=<>^_|%]|[^\W\d_a-z]")


def words(text: str) -> tuple[str, ...]:
    """Words, numbers and operators in order; other letters (Chinese, Greek) one by one.

    Two problems with the same words differ in spaces, punctuation, brackets, capitals, sizes of
    fractions or figures at most; `x+1` and `x-1` are different.
    """
    plain = _FRACTION.sub(r"\\frac \1 ", _TYPOGRAPHY.sub(" ", _FIGURE.sub(" ", text)))
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", plain).lower()))


def key(text: str) -> tuple[str, ...] | str:
    """A key for deduplication: the words of a problem, or the text if it has none."""
    return words(text) or text.strip()
