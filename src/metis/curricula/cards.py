"""Parses the docstrings of a curriculum: the card of its module, the settings of its class.

`docs/curricula.md` is generated from these cards.
"""

import inspect
import re
from dataclasses import dataclass, is_dataclass

LABELS = ("Idea", "Equation", "Acts", "Costs", "Continuous", "Reference", "Deviations")
LABEL = re.compile(rf"^({'|'.join(LABELS)})\b", re.MULTILINE)
NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)
SETTING = re.compile(r"\n(?=\S)")


@dataclass(frozen=True)
class Card:
    """A method's summary and labelled parts, each on one line.

    `note` is the text after the label Deviations, before the first one.
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


def curriculum_card(kind: type) -> Card:
    """The card of a curriculum's class."""
    module = inspect.getmodule(kind)
    return parse_card((module and module.__doc__) or "")


def parse_card(docstring: str) -> Card:
    """Parse a docstring in which every label starts a line, once; further lines are indented."""
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
    """The docstring of a class, including inherited settings."""
    summary, own = _settings(kind)
    for base in kind.__mro__[1:]:
        if is_dataclass(base):
            own = _settings(base)[1] | own
    return "\n".join([summary, "", *own.values()])


def documented_settings(kind: type) -> dict[str, str]:
    """What a class, or one of its bases, says of each of its settings, on one line."""
    lines = documented(kind).partition("\n\n")[2]
    parts = [text.partition("  ") for text in SETTING.split(lines) if text]
    return {name: _line(text) for names, _, text in parts for name in names.split(", ")}


def _settings(kind: type) -> tuple[str, dict[str, str]]:
    """The summary of a class, and the lines of each of its settings."""
    summary, _, table = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    lines = SETTING.split(table) if table else []
    return summary, {text.partition("  ")[0]: text for text in lines}


def _line(text: str) -> str:
    return " ".join(text.split())
