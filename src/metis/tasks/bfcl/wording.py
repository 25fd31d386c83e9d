"""The texts of an episode: the system message that summarises the APIs, results, new functions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from metis.tasks.bfcl.package import Api, Function

INSTRUCTION = """\
You help a user by calling functions. To call some, reply with a list of calls and nothing else:
[first_function(parameter="value"), second_function(number=2)]
Arguments are literals. You are then shown the results, and may call more functions. When the \
request is done, or no function can do it, or a value is missing that only the user knows, reply \
in words without any call; the user goes on from there."""

ADDED = "These functions are available from now on:"
AGAIN = "I have updated some more functions you can choose from. What about now?"
"""The official words for a turn in which withheld functions are handed over."""
CUT = " ... ({} characters more)"


def system(apis: Sequence[Api], withheld: Collection[str]) -> str:
    """The instruction, and a summary of every API without the functions that are withheld."""
    parts = [INSTRUCTION]
    for api in apis:
        shown = [each for each in api.functions.values() if each.name not in withheld]
        parts.append("\n".join([f"{api.name}: {api.purpose}", *map(summary, shown)]))
    return "\n\n".join(parts)


def summary(function: Function) -> str:
    """A function in one line: its parameters, optional ones with their default, and its purpose."""
    parameters = ", ".join(
        name if name in function.required else f"{name}={_default(described)}"
        for name, described in function.parameters.items()
    )
    return f"- {function.name}({parameters}): {_first_sentence(function.purpose)}"


def added(functions: Sequence[Function]) -> str:
    """The user's words when functions that were withheld are handed over; some of the official
    composites hand over one that no longer exists."""
    return "\n".join([*([ADDED] if functions else []), *map(summary, functions), AGAIN])


def results(names: Sequence[str], outputs: Sequence[str], longest: int) -> str:
    """The names and results of some calls, each cut to its share of `longest` characters."""
    share = max(1, longest // max(1, len(outputs)))
    shown = (
        bounded(f"{name}: {output}", share) for name, output in zip(names, outputs, strict=True)
    )
    return "\n".join(["Results:", *shown])


def bounded(text: str, longest: int) -> str:
    """The beginning of a text, and how much more there is."""
    return text if len(text) <= longest else text[:longest] + CUT.format(len(text) - longest)


def judged(question: str, apis: Sequence[Api]) -> str:
    """The view of a judge: the first user turn and the names of the APIs."""
    return f"{question}\n\nAPIs: {', '.join(api.name for api in apis)}"


def _default(described: Mapping[str, Any]) -> str:
    """A parameter's default; documentation has "None" as text."""
    default = described.get("default")
    return "None" if default == "None" else repr(default)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")
