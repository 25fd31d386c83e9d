"""Writes docs/api.md from the docstrings of the public names: `make docs`."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import metis

PAGE = Path(__file__).with_name("api.md")
HEAD = """\
# Python API

What `import metis` has. [Commands and Python](commands.md#training) shows how the calls are used,
[from TRL](trl.md) has `metis.trl`, [adding a curriculum](adding-a-curriculum.md) what a curriculum
of your own imports. [What may change](../CONTRIBUTING.md) is under a rule.

This page is made from the docstrings by `make docs`; change them, not it.
"""
PARTS = {
    "Calls that do what a command does": (
        *("train", "survey", "judge", "compare", "evaluate", "load"),
    ),
    "Results": (
        *("TrainedRun", "SurveyResult", "RankingResult", "ComparisonResult", "EvaluationResult"),
    ),
    "A curriculum in your own loop": ("Selector", "AsyncSelector", "curriculum", "drive"),
    "What curricula are made of": ("Prompt", "Group", "Batch", "Pool", "Progress", "MetisError"),
}
ARGUMENT = re.compile(r"^(\w+) {2,}(.*)$")
QUOTED = re.compile(r"(?<!= )'([A-Z][^']+)'")
MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")


def page() -> str:
    listed = {name for names in PARTS.values() for name in names}
    if missing := set(metis.__all__) - listed - {"__version__"}:
        raise ValueError(f"in no part of the page: {', '.join(sorted(missing))}")
    lines = [HEAD]
    for title, names in PARTS.items():
        lines.append(f"## {title}\n")
        for name in names:
            lines += _described(name, getattr(metis, name))
    return "\n".join(lines)


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if not (inspect.isclass(value) and issubclass(value, Exception)):
        yield f"```python\n{_call(name, value)}\n```\n"
    yield from _text(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        made = next(vars(base)["__init__"] for base in value.__mro__ if "__init__" in vars(base))
        if inspect.isfunction(made) and (about := made.__doc__):
            yield from _text(inspect.cleandoc(about))
        yield from _members(value)


def _call(name: str, value: Any) -> str:
    """The call with its arguments and their types, on one line where it fits."""
    signature = inspect.signature(value)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    words = _plain(signature.replace(parameters=parameters)).removesuffix(" -> None")
    if len(words) < 80:
        return f"{name}{words}"
    inside = textwrap.indent(",\n".join(map(_plain, _marked(parameters))), "    ")
    _, arrow, end = words.rpartition(" -> ")
    return f"{name}(\n{inside},\n){arrow}{end if arrow else ''}"


def _plain(part: object) -> str:
    """Types by their names alone, without modules and quotes."""
    return (
        MODULES.sub("", QUOTED.sub(r"\1", str(part))).replace("<factory>", "...").replace("~", "")
    )


def _marked(parameters: list[inspect.Parameter]) -> Iterator[object]:
    """Parameters, with the star before those that are given by name alone."""
    before = None
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and before not in (
            each.KEYWORD_ONLY,
            each.VAR_POSITIONAL,
        ):
            yield "*"
        yield each
        before = each.kind


def _text(docstring: str) -> Iterator[str]:
    """Paragraphs; those that are Python as code, and a list of arguments as a table."""
    for paragraph in docstring.split("\n\n"):
        block = textwrap.dedent(paragraph)
        if ARGUMENT.match(block.partition("\n")[0]):
            yield "| argument | |\n|---|---|"
            for entry in re.split(r"\n(?=\S)", block):
                name, _, rest = " ".join(entry.split()).partition(" ")
                yield f"| `{name}` | {rest.replace('|', chr(92) + '|')} |"
            yield ""
        elif _is_code(block):
            yield f"```python\n{block}\n```\n"
        else:
            yield block + "\n"


def _is_code(block: str) -> bool:
    try:
        return bool(ast.parse(block).body)
    except SyntaxError:
        return False


def _members(kind: type) -> Iterator[str]:
    """Properties and methods with the first line of their docstrings."""
    rows = []
    own = [base for base in kind.__mro__ if base.__module__.startswith("metis")]
    for name in sorted({name for base in own for name in vars(base)}):
        member = inspect.getattr_static(kind, name)
        about = (inspect.getdoc(member) or "").partition("\n\n")[0]
        is_call = inspect.isfunction(member)
        if name.startswith("_") or not (about and (is_call or isinstance(member, property))):
            continue
        word = f"{name}{_arguments(member)}" if is_call else name
        rows.append(f"| `{word}` | {' '.join(about.split()).replace('|', chr(92) + '|')} |")
    if rows:
        yield "\n".join([f"| of a `{kind.__name__}` | |", "|---|---|", *rows]) + "\n"


def _arguments(function: Any) -> str:
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(plain))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
