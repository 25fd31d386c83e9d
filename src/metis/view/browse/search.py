"""Parses searches into full-text queries and text patterns.

Words are found in any case, those of four letters or more from their start. What stands in quotes,
or has signs in it, is found as it stands: the index has its words alone, so the text is looked at
too.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that put no spaces between words; the index has none of them."""
LETTER = rf"[^\W_{UNSPACED}]"
SHORT = 4
"""Letters of a word from which on it may be the start of another."""
MOST = 12
"""Terms that are looked for; others are left out."""
BEFORE, LONGEST = 60, 240
"""Characters of a snippet before its first hit, and altogether."""

_TERM = re.compile(r'"([^"]*)"?|(\S+)')
_WORD = re.compile(rf"{LETTER}+")
_UNSPACED = re.compile(rf"[{UNSPACED}]+")


class Term(NamedTuple):
    """A part of a query: its words in the index, and its pattern in a text.

    `whole` is True of a single word, which the index finds alone.
    """

    text: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    whole: bool


def terms(query: str) -> list[Term]:
    found = (match[1] or match[2] or "" for match in _TERM.finditer(query))
    return [_term(text) for each in found if (text := each.strip())][:MOST]


def _term(text: str) -> Term:
    start = rf"(?<!{LETTER})" if _WORD.match(text) else ""
    end = rf"(?!{LETTER})" if _WORD.search(text[-1]) and not _starts(text) else ""
    pattern = r"\s+".join(re.escape(part) for part in text.split())
    words = tuple(_WORD.findall(text))
    return Term(text, words, re.compile(start + pattern + end, re.IGNORECASE), words == (text,))


def _starts(text: str) -> bool:
    """True if the last word of a text may be a prefix: a word, not a number."""
    last = _WORD.findall(text)[-1]
    return len(last) >= SHORT and last.isalpha()


def match(found: Sequence[Term]) -> str:
    """The full-text query; empty if no term has words."""
    words = dict.fromkeys(word for term in found for word in _asked(term))
    return " AND ".join(words)


def _asked(term: Term) -> list[str]:
    """A term's words in the full-text query; the last may be a prefix."""
    words = [f'"{word}"' for word in term.words]
    if words and not _WORD.search(term.text[-1]):
        return words
    return [*words[:-1], f"{words[-1]}*"] if words and _starts(term.text) else words


def indexed(text: str) -> str:
    """The text as the index has it."""
    return text if text.isascii() else _UNSPACED.sub(" ", text)


def fits(found: Sequence[Term], text: str) -> bool:
    return all(term.pattern.search(text) for term in found)


def snippet(found: Sequence[Term], text: str) -> tuple[str, list[list[int]]]:
    """The text around the first hit, and where in it the hits are, in UTF-16 units as browsers
    count."""
    hits = [hit for term in found if (hit := term.pattern.search(text))]
    start = max(0, min((hit.start() for hit in hits), default=0) - BEFORE)
    shown = text[start : start + LONGEST]
    spans = sorted({hit.span() for term in found for hit in term.pattern.finditer(shown)})
    return shown, [[_units(shown[:first]), _units(shown[:last])] for first, last in spans]


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
