"""Untrusted text: printing it safely, Markdown tables, and the last `\\boxed{}` of an answer."""

import re
from collections.abc import Sequence

import numpy as np

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, but for tabs and line ends, and those that reorder right-to-left text."""
OPENING = "\\boxed{"
NEAR = 2000
"""Characters after the last box starts in which its end is looked for first."""
_BRACE = re.compile(r"[{}]")


def printable(text: str) -> str:
    """The text with terminal control characters escaped."""
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table; the first is its header."""
    cells = [[_cell(text) for text in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Text that is shown as it is: nothing in it is markup."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", printable(text))


def _cell(text: str) -> str:
    words = " ".join(text.split())
    return printable(words).replace("\\", "\\\\").replace("|", "\\|")


def last_box(text: str) -> str | None:
    """Content of the balanced box that starts last; None where no box is closed."""
    start = text.rfind(OPENING) + len(OPENING)
    depth = 1
    for brace in _BRACE.finditer(text, start, start + NEAR) if start >= len(OPENING) else ():
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return _last_closed(text)


def _last_closed(text: str) -> str | None:
    """Like `last_box`, in linear time whatever boxes are never closed."""
    data = text.encode("utf-8", "surrogatepass")
    array = np.frombuffer(data, dtype=np.uint8)
    opens = np.flatnonzero(array == ord("{"))
    opens = opens[opens >= len(OPENING) - 1]
    for place, letter in enumerate(reversed(OPENING.encode())):
        opens = opens[array[opens - place] == letter]
    if opens.size == 0:
        return None
    braces = (array == ord("{")).astype(np.int32) - (array == ord("}"))
    depth = np.cumsum(braces, dtype=np.int32)
    lowest_after = np.minimum.accumulate(depth[::-1])[::-1]
    closed = opens[lowest_after[opens] < depth[opens]]
    if closed.size == 0:
        return None
    start = int(closed[-1])
    end = start + int(np.argmax(depth[start:] < depth[start]))
    return data[start + 1 : end].decode("utf-8", "surrogatepass")
