"""The card of a curriculum: the labelled parts of its module's docstring, as a value.

`docs/curricula.md` is made of these cards, so that every fact about a method stands in its file.
"""

import inspect
import re
from dataclasses import dataclass

LABELS = ("Idea", "Equation", "Acts", "Costs", "Continuous", "Reference", "Deviations")
LABEL = re.compile(rf"^({'|'.join(LABELS)})\b", re.MULTILINE)
NUMBER = re.compile(r"^\d+\. ", re.MULTILINE)


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
    found = {label.lower(): text for label, text in zip(labels, texts, strict=True)}
    note, *deviations = NUMBER.split(found.pop("deviations"))
    lines = {label: _line(text) for label, text in found.items()}
    return Card(_line(summary), **lines, note=_line(note), deviations=tuple(map(_line, deviations)))


def _line(text: str) -> str:
    return " ".join(text.split())
