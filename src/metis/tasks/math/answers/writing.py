"""Answers written in one way, as far as that cannot change what they say.

The normalisation of the MATH benchmark (`hendrycks.py`) joins the digits of `1 2` and drops the
`x>` of `x>=5`. This one is for answers that are read: it keeps relations, keeps digits apart, and
knows the plain words that stand for commands.
"""

import re

_WORD = re.compile(r"(?<![A-Za-z\\])(?:pi|ln|[Ii]nfinity)(?![A-Za-z])")
_COMMANDS = {"pi": "\\pi ", "ln": "\\ln ", "infinity": "\\infty "}
_PROSE = re.compile(r"\\(?:text|math|mbox|operatorname)")
_IGNORED = re.compile(
    r"\\!|\\(?:left|right)(?![A-Za-z])|\^\\circ(?![A-Za-z])|\^\{\\circ\}|\\\$|\\?%"
)
_BLANK = re.compile(r"(?:(?<!\\)\\[,;: ]|\\q?quad(?![A-Za-z])|~|\s)++")
_LOOSE = re.compile(r"(?<!\d) | (?!\d)")
_NAME = re.compile(r"^[A-Za-z]{1,2}=(?=[^=]*$)")
_BARE_POINT = re.compile(r"(?<![\d}])\.(?=\d)")
_ROOT = re.compile(r"\\sqrt\s*+([^\s{\[\\(])")
_SHORT_FRACTIONS = (
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\frac\s*+([^\s{\\])\s*+([^\s{\\])"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac\s*+([^\s{\\])\s*+\{"), r"\\frac{\1}{"),
)
_QUOTIENTS = (
    (re.compile(r"^([+-]?\d+) (\d+)/(\d+)$"), r"\1\\frac{\2}{\3}"),
    (re.compile(r"^(-?\d+)/(\d+)$"), r"\\frac{\1}{\2}"),
)


def commands(text: str) -> str:
    """Plain words and signs as LaTeX: 2pi, ln(2), infinity, <=."""
    text = text.replace("<=", "\\le ").replace(">=", "\\ge ")
    if _PROSE.search(text):
        return text
    return _WORD.sub(lambda word: _COMMANDS[word[0].lower()], text)


def plain(text: str) -> str:
    """The string that stands for an answer; a blank is left between digits only."""
    text = _ROOT.sub(r"\\sqrt{\1}", _IGNORED.sub("", commands(text)))
    for pattern, written_out in _SHORT_FRACTIONS:
        text = pattern.sub(written_out, text)
    text = _LOOSE.sub("", _BLANK.sub(" ", text).strip())
    text = _NAME.sub("", _BARE_POINT.sub("0.", text))
    text = text[1:-1] if _wrapped(text) else text
    for pattern, written_out in _QUOTIENTS:
        text = pattern.sub(written_out, text)
    return text


def _wrapped(text: str) -> bool:
    """True if one pair of braces holds all of it."""
    if not text.startswith("{") or not text.endswith("}"):
        return False
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return at == len(text) - 1 and text[at - 1] != "\\"
    return False
