"""Answers in boxes: the last balanced \\boxed{} of a text, in time linear in the text."""

import re

import numpy as np

OPENING = "\\boxed{"
NEAR = 2000
"""Characters after the last box starts in which its end is looked for first."""
_BRACE = re.compile(r"[{}]")


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
    """The same wherever the box ends, and however many are never closed."""
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
