"""The docstrings of a curriculum as values: the card of its module, the knobs of its class.

`docs/curricula.md` is made of these cards, so that every fact about a method stands in its file.
"""

import inspect
import re
from dataclasses import dataclass, is_dataclass

LABELS = ("Idea", "Equation", "Acts", "Costs", "Continuous", "Reference", "Deviations")
LABEL = re.compile(rf"^({'|'.join(LABELS)})\b", re.MULTILINE)
NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)
KNOB = re.compile(r"\n(?=\S)")


@dataclass(frozen=True)
class Card:
    """One method: its first sentence, then its labelled parts, each on one line.

    `note` is what stands beside the label of the deviations, before the first of them.
    """

    summary: str
    idea: str
    equation: str
    acts: str
    costs: str
    continuous: str
    reference: str
    note: str
    deviations: tuple[str, ...]


def card(kind: type) -> Card:
    """The card of a curriculum's class."""
    module = inspect.getmodule(kind)
    return parse((module and module.__doc__) or "")


def parse(docstring: str) -> Card:
    """Read a docstring in which every label begins a line, once, and further lines are indented."""
    summary, *parts = LABEL.split(inspect.cleandoc(docstring))
    labels, texts = parts[::2], parts[1::2]
    if sorted(labels) != sorted(LABELS):
        raise ValueError(
            f"a curriculum's docstring has the parts {LABELS}, once each; not {labels}"
        )
    sections = {label.lower(): text for label, text in zip(labels, texts, strict=True)}
    note, *deviations = NUMBER.split(sections.pop("deviations"))
    lines = {label: _line(text) for label, text in sections.items()}
    return Card(_line(summary), **lines, note=_line(note), deviations=tuple(map(_line, deviations)))


def documented(kind: type) -> str:
    """The docstring of a class with the knobs that it inherits; its own words on a knob win."""
    summary, own = _knobs(kind)
    for base in kind.__mro__[1:]:
        if is_dataclass(base):
            own = _knobs(base)[1] | own
    return "\n".join([summary, "", *own.values()])


def _knobs(kind: type) -> tuple[str, dict[str, str]]:
    """The summary of a class, and the lines on each of its knobs."""
    summary, _, table = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    lines = KNOB.split(table) if table else []
    return summary, {text.partition("  ")[0]: text for text in lines}


def _line(text: str) -> str:
    return " ".join(text.split())
