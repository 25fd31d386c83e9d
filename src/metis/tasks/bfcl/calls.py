"""Function calls in a reply, read with `ast`: names and literals, of which nothing is evaluated.

A reply is a list of calls, `[f(x=1), g()]`, a single call, or anything else, which is an answer in
words unless it begins like a call. Where all of it is no list of calls, text in a code block counts
without its fence, and what comes before `</think>` not at all.
"""

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Any

LONGEST = 65_536
"""Characters of calls that are read."""
MOST = 64
"""Calls of one reply that are read; no ground truth has more than 34 in a turn."""

warnings.filterwarnings("ignore", module="<unknown>")  # of ast.parse, about a policy's text

_FENCE = re.compile(r"```[a-zA-Z_]*\n?(.*?)```", re.DOTALL)
_FENCED = re.compile(r"```[a-zA-Z_]*\n?(.*)```", re.DOTALL)
_LIKE_CALLS = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(|[A-Za-z_][\w.]*\(")


@dataclass(frozen=True)
class Call:
    """A call whose arguments are values."""

    name: str
    positional: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A call that is not made, and the reason for its author."""

    reason: str


class Unreadable(Exception):
    """A reply that was meant as calls and is none; the message is for its author."""


UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Exceptions of Python's parser."""


def read(reply: str) -> list[Call | Refusal]:
    """The calls of a reply; none where it is an answer in words."""
    text = reply.strip()
    if "`" in text or "</think>" in text:
        text = _written(text)
    meant = _LIKE_CALLS.match(text) is not None
    if len(text) > LONGEST:
        if meant:
            raise Unreadable(f"calls of {len(text)} characters; at most {LONGEST} are read")
        return []
    try:
        body = ast.parse(text, mode="eval").body
    except UNPARSABLE as error:
        if meant:
            raise Unreadable(f"not a list of calls ({_reason(error)})") from None
        return []
    if not any(isinstance(node, ast.Call) for node in ast.walk(body)):
        return []
    nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
    if len(nodes) > MOST:
        raise Unreadable(f"{len(nodes)} calls at once; at most {MOST} are made")
    return [_call(node) for node in nodes]


def parse(call: str) -> Call | Refusal:
    """One call, as a ground truth has it."""
    try:
        return _call(ast.parse(call, mode="eval").body)
    except UNPARSABLE as error:
        return Refusal(f"not a call ({_reason(error)})")


def _is_calls(text: str) -> bool:
    """True for a call or a list of calls and nothing around it."""
    if len(text) > LONGEST or not _LIKE_CALLS.match(text):
        return False
    try:
        body = ast.parse(text, mode="eval").body
    except UNPARSABLE:
        return False
    nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
    return any(isinstance(node, ast.Call) for node in nodes)


def _written(text: str) -> str:
    """The part of a reply that may be calls; arguments may contain fences and ends of thinking."""
    for said in (text, text.partition("</think>")[2].strip()):
        around = _FENCED.fullmatch(said)
        for part in (said, around[1].strip() if around else ""):
            if _is_calls(part):
                return part
    said = text.rpartition("</think>")[2].strip()
    fenced = _FENCE.search(said)
    return fenced[1].strip() if fenced else said.strip("`").strip()


def _reason(error: Exception) -> str:
    return str(error.args[0] if error.args else type(error).__name__)[:100]


def _call(node: ast.expr) -> Call | Refusal:
    if not isinstance(node, ast.Call):
        return Refusal(f"{_shown(node)} is not a call: write name(parameter=value)")
    if not isinstance(node.func, ast.Name):
        return Refusal(f"{_shown(node.func)} is not the name of a function")
    name = node.func.id
    try:
        positional = tuple(_value(argument) for argument in node.args)
        named = tuple((_keyword(argument), _value(argument.value)) for argument in node.keywords)
    except ValueError as error:
        return Refusal(f"{name}: {error}")
    keys = [key for key, _ in named]
    if repeated := {key for key in keys if keys.count(key) > 1}:
        return Refusal(f"{name}: {min(repeated)} is given twice")
    return Call(name, positional, named)


def _keyword(argument: ast.keyword) -> str:
    if argument.arg is None:
        raise ValueError("** is not allowed: write parameter=value")
    return argument.arg


def _value(node: ast.expr) -> Any:
    """A literal's value."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(
            f"{_shown(node)} is not a literal: use strings, numbers, True, False, None, and lists "
            "and dictionaries of them"
        ) from None
    return value


def _shown(node: ast.expr) -> str:
    """The beginning of an expression as text."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):  # of an integer of very many digits, of deep nesting
        return "this"
    return text if len(text) <= 60 else f"{text[:57]}..."
