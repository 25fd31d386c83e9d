"""Extracts the program from a response: its last fenced block of Python.

| response | program |
|---|---|
| blocks marked as Python | the last of them; with `functions`, the last that defines one of these |
| only unmarked blocks | the same among them |
| a block that is never closed | the rest of the response: it was truncated |
| no block | the whole response if it is Python, else none |

Text between `<think>` and `</think>` is dropped, and so is all before a lone `</think>`, whose
beginning is in the prompt. A block is dedented by the indentation of its fence.
"""

import ast
import re
import warnings
from collections.abc import Sequence
from typing import NamedTuple

FIELDS = 500
"""Maximum number of `{` in a response without blocks that has f-strings: parsing their fields takes
quadratic time."""
THINKING, THOUGHT = "<think>", "</think>"
MARKS = ("python", "python3", "py", "py3")
_FORMATTED = re.compile(r"[fF][rR]?['\"]")
_FENCE = re.compile(r"([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([\w+.-]*+)([^`\n]*+)\n?")


class _Fence(NamedTuple):
    indent: int
    signs: str
    mark: str = ""
    bare: bool = False

    def closes(self, other: "_Fence") -> bool:
        return self.bare and self.signs.startswith(other.signs)


class _Block(NamedTuple):
    mark: str
    code: str


def program(response: str, functions: Sequence[str] = ()) -> str:
    """The program of a response; empty if there is none."""
    said = response.rpartition(THOUGHT)[2].partition(THINKING)[0]
    blocks = _blocks(said)
    if not blocks:
        return said.strip() + "\n" if _is_python(said) else ""
    marked = [block.code for block in blocks if block.mark.lower() in MARKS]
    codes = marked or [block.code for block in blocks if not block.mark]
    defining = [code for code in codes if any(_defines(code, name) for name in functions)]
    return (defining or codes or [""])[-1]


def _blocks(text: str) -> list[_Block]:
    """Fenced blocks in order; a fence is closed by a bare one of the same kind and length."""
    blocks: list[_Block] = []
    opened: _Fence | None = None
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        fence = _fence(line)
        if opened is None:
            opened = fence or _fence_after_text(line)
        elif fence and fence.closes(opened):
            blocks.append(_Block(opened.mark, "".join(lines)))
            opened, lines = None, []
        else:
            lines.append(_dedented(line, opened.indent))
    if opened is not None:
        blocks.append(_Block(opened.mark, "".join(lines)))
    return blocks


def _fence(line: str) -> _Fence | None:
    """The fence, if the line is one."""
    match = _FENCE.fullmatch(line)
    if match is None:
        return None
    bare = not match[3] and not match[4].strip()
    return _Fence(len(match[1]), match[2], match[3], bare)


def _fence_after_text(line: str) -> _Fence | None:
    """The fence at the end of a line of text, if it is marked as Python."""
    _, signs, mark = line.rpartition("```")
    python = signs and mark.strip().lower() in MARKS
    return _Fence(0, signs, mark.strip()) if python else None


def _dedented(line: str, indent: int) -> str:
    """The line without the indentation of its fence."""
    return line[min(indent, len(line) - len(line.lstrip(" \t"))) :]


def _defines(code: str, name: str) -> bool:
    """True if the code defines a function or class of this name; for `Class.method`, the class."""
    own = re.escape(name.partition(".")[0])
    definition = rf"^[ \t]*+(?:async[ \t]++def|def|class)[ \t]++{own}\b"
    return re.search(definition, code, re.MULTILINE) is not None


def _is_python(text: str) -> bool:
    """True for code that parses and is not just an expression without a call, such as a word."""
    if text.count("{") > FIELDS and _FORMATTED.search(text):
        return False
    try:
        body = parsed(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(part, ast.Expr) or isinstance(part.value, ast.Call) for part in body)


def parsed(code: str) -> ast.Module:
    """The syntax tree of a module; raises SyntaxError or ValueError if it does not parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)
