"""Parses function calls in a reply with `ast`: names and literals; nothing is evaluated.

A reply is a list of calls, `[f(x=1), g()]`, or a single call; other text is an answer in words,
unless it begins like a call. If the whole reply is not a list of calls, text before `</think>` is
dropped, and a code block is read without its fence.

A reply is scanned in linear time; Python's parser gets a bounded part of it.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LONGEST = 16_384
"""Characters of a reply that are parsed, all attempts together; no ground truth has half of it."""
BRACES = 500
"""Opening braces of what is parsed: the fields of a formatted string take quadratic time."""
BITS = 4000
"""Maximum bits of an integer: Python prints at most 4,300 digits."""
MOST = 64
"""Maximum calls of one reply; no ground truth has more than 34 in a turn."""
SHOWN = 60
"""Characters of a refused call that the policy is shown."""

warnings.filterwarnings("ignore", module="<unknown>")  # of ast.parse, about a policy's text

_FENCE = "```"
_THOUGHT = "</think>"
_LANGUAGE = re.compile(r"[a-zA-Z_]*+\n?+")
_LIKE_CALLS = re.compile(r"\[\s*+[A-Za-z_][\w.]*+\s*+\(|[A-Za-z_][\w.]*+\(")


@dataclass(frozen=True)
class ApiCall:
    """A call whose arguments are values."""

    name: str
    positional: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class RefusedCall:
    """A refused call, with the reason that the policy is told."""

    reason: str


class Unreadable(Exception):
    """A reply that looks like calls and does not parse; the policy is told the message."""


UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Exceptions of Python's parser."""


def read(reply: str) -> list[ApiCall | RefusedCall]:
    """The calls of a reply; empty for an answer in words."""
    text, parser = reply.strip(), _Parser()
    if "`" in text or _THOUGHT in text:
        for part in _wholes(text):
            if _LIKE_CALLS.match(part) and (body := parser.tried(part)) and _is_calls(body):
                return _calls(body, part)
        text = _within(text)
    try:
        body = parser.parse(text)
    except UNPARSABLE as error:
        if _LIKE_CALLS.match(text):
            raise Unreadable(f"not a list of calls ({_reason(error)})") from None
        return []
    if not any(isinstance(node, ast.Call) for node in ast.walk(body)):
        return []
    return _calls(body, text)


def parse(call: str) -> ApiCall | RefusedCall:
    """Parse one call of a ground truth."""
    try:
        return _call(ast.parse(call, mode="eval").body, call)
    except UNPARSABLE as error:
        return RefusedCall(f"not a call ({_reason(error)})")


class _Parser:
    """Parses the parts of one reply with Python's parser, within the limits."""

    def __init__(self) -> None:
        self.left = LONGEST

    def parse(self, text: str) -> ast.expr:
        if len(text) > self.left:
            raise ValueError(f"{len(text)} characters; at most {LONGEST} are read")
        if text.count("{") > BRACES:
            raise ValueError(f"more than {BRACES} braces")
        self.left -= len(text)
        return ast.parse(text, mode="eval").body

    def tried(self, text: str) -> ast.expr | None:
        try:
            return self.parse(text)
        except UNPARSABLE:
            return None


def _nodes(body: ast.expr) -> list[ast.expr]:
    return body.elts if isinstance(body, ast.List | ast.Tuple) else [body]


def _is_calls(body: ast.expr) -> bool:
    """True for a call or a list of calls and nothing around it."""
    return any(isinstance(node, ast.Call) for node in _nodes(body))


def _calls(body: ast.expr, text: str) -> list[ApiCall | RefusedCall]:
    nodes = _nodes(body)
    if len(nodes) > MOST:
        raise Unreadable(f"{len(nodes)} calls at once; at most {MOST} are made")
    return [_call(node, text) for node in nodes]


def _wholes(text: str) -> Iterator[str]:
    """What may be calls from end to end, whose arguments may contain fences and ends of
    thinking."""
    for said in (text, text.partition(_THOUGHT)[2].strip()):
        yield said
        if said.startswith(_FENCE) and said.endswith(_FENCE) and len(said) >= 2 * len(_FENCE):
            inside = said[len(_FENCE) : -len(_FENCE)]
            yield _without_language(inside, 0).strip()


def _within(text: str) -> str:
    """The first code block after all thinking, or all that comes after it."""
    said = text.rpartition(_THOUGHT)[2].strip()
    start = said.find(_FENCE)
    block, fence, _ = _without_language(said, start + len(_FENCE)).partition(_FENCE)
    return (block if start >= 0 and fence else said.strip("`")).strip()


def _without_language(text: str, start: int) -> str:
    """What follows the name of a language that begins there."""
    language = _LANGUAGE.match(text, start)
    return text[language.end() :] if language else text[start:]


def _reason(error: Exception) -> str:
    return str(error.args[0] if error.args else type(error).__name__)[:100]


def _call(node: ast.expr, text: str) -> ApiCall | RefusedCall:
    if not isinstance(node, ast.Call):
        return RefusedCall(f"{_shown(node, text)} is not a call: write name(parameter=value)")
    if not isinstance(node.func, ast.Name):
        return RefusedCall(f"{_shown(node.func, text)} is not the name of a function")
    name = node.func.id
    try:
        positional = tuple(_value(argument, text) for argument in node.args)
        named: dict[str, Any] = {}
        for argument in node.keywords:
            if argument.arg is None:
                raise ValueError("** is not allowed: write parameter=value")
            if argument.arg in named:
                raise ValueError(f"{argument.arg} is given twice")
            named[argument.arg] = _value(argument.value, text)
    except ValueError as error:
        return RefusedCall(f"{name}: {error}")
    return ApiCall(name, positional, tuple(named.items()))


def _value(node: ast.expr, text: str) -> Any:
    """A literal's value."""
    constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    if any(isinstance(each, int) and each.bit_length() > BITS for each in constants):
        raise ValueError(f"an integer may be at most {BITS:,} bits long")
    try:
        return ast.literal_eval(node)
    except Exception:  # of other kinds too: a sum with an imaginary number may overflow
        raise ValueError(
            f"{_shown(node, text)} is not a literal: use strings, numbers, True, False, None, and "
            "lists and dictionaries of them"
        ) from None


def _shown(node: ast.expr, text: str) -> str:
    """The beginning of an expression as it was written."""
    line = text.encode().splitlines()[node.lineno - 1][node.col_offset :]
    if node.end_lineno == node.lineno and node.end_col_offset is not None:
        line = line[: node.end_col_offset - node.col_offset]
    shown = line[: 4 * SHOWN].decode("utf-8", "ignore")
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
