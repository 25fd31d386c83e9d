"""Text that others wrote, made safe to print: a terminal obeys escape sequences in it."""

import re

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, but for tabs and line ends, and those that reorder right-to-left text."""


def printable(text: str) -> str:
    """The same text, with every character that a terminal obeys written as an escape."""
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
