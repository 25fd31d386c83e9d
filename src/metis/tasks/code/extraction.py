"""The program in a response: the last block of Python between fences.

| response | program |
|---|---|
| blocks marked as Python | the last of them; with `functions`, the last that defines one of these |
| blocks without a mark only | the same among them |
| a block that is never closed | the rest of the response: it was cut off |
| no block | the whole response if it is Python, else none |

Whatever a model thinks before `</think>` is no part of its response.
"""

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from metis.tasks.code.syntax import parsed

THOUGHT = "</think>"
MARKS = ("python", "python3", "py", "py3")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)[^\n`]*$", re.MULTILINE)


class _Block(NamedTuple):
    mark: str
    code: str


def program(response: str, functions: Sequence[str] = ()) -> str:
    """The program of a response; empty where there is none."""
    said = response.rpartition(THOUGHT)[2]
    blocks = _blocks(said)
    if not blocks:
        return said.strip() + "\n" if _is_python(said) else ""
    marked = [block.code for block in blocks if block.mark.lower() in MARKS]
    codes = marked or [block.code for block in blocks if not block.mark]
    defining = [code for code in codes if any(_defines(code, name) for name in functions)]
    return (defining or codes or [""])[-1]


def _blocks(text: str) -> list[_Block]:
    """Fenced blocks in their order; a fence is closed by a bare one of its kind and length."""
    found: list[_Block] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2]:
            found.append(_Block(opened[2], text[opened.end() + 1 : fence.start()]))
            opened = None
    if opened is not None:
        found.append(_Block(opened[2], text[opened.end() + 1 :]))
    return found


def _defines(code: str, name: str) -> bool:
    """True of a function or a class of this name; `Class.method` asks for the class."""
    own = re.escape(name.partition(".")[0])
    return re.search(rf"^\s*(?:async\s+def|def|class)\s+{own}\b", code, re.MULTILINE) is not None


def _is_python(text: str) -> bool:
    """True of statements that can be parsed, and are more than a word or a sentence."""
    try:
        body = parsed(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(part, ast.Expr) or isinstance(part.value, ast.Call) for part in body)
