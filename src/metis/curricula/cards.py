"""Docstrings of curricula as values: a card of the module's, settings of the class's.

`metis curricula NAME` and `docs/curricula.md` are made from them.
"""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from metis.core.dotted import leaves
from metis.core.needs import needs_of
from metis.curricula.judges import JUDGES, Judge
from metis.curricula.registry import curriculum_class, defaults, judge_name, judge_of, presets

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


def describe_curriculum(name: str) -> Iterator[str]:
    """Lines about a curriculum: its card, then every setting of it, its judges and its presets."""
    kind = curriculum_class(name)
    yield inspect.getdoc(inspect.getmodule(kind)) or ""
    yield f"\n{_settings(kind)[0]}\n\nNeeds  {needs_of(kind()).described()}\n"
    own = judge_of(kind)
    parts = {"": kind()} | ({} if own is None else _judges(own))
    rows = {part: list(settings_of(made, part)) for part, made in parts.items()}
    width = max((len(_assignment(*row[:2])) for part in rows.values() for row in part), default=0)
    for part, made in parts.items():
        if part:
            yield f"{part}  {_settings(type(made))[0]}"
        for key, value, meaning in rows[part]:
            yield from _wrapped(_assignment(key, value), meaning, width)
    for preset, settings in presets(name).items():
        changed = " ".join(_assignment(*each) for each in leaves(settings, "curriculum."))
        yield f"curriculum.preset={preset}  {changed or 'the defaults'}"


def _judges(own: Judge[Any]) -> dict[str, Judge[Any]]:
    """Every judge by its setting; `own` stands for its kind."""
    made = {name: own if type(own) is kind else kind() for name, kind in JUDGES.items()}
    return {f"curriculum.judge={name}": judge for name, judge in made.items()}


def settings_of(made: Any, section: str = "") -> Iterator[tuple[str, Any, str]]:
    """Key, value and meaning of each setting except `batch` and `group`; a judge by its name."""
    prefix = f"{(section or 'curriculum').partition('=')[0]}."
    described = documented_settings(type(made))
    for field in fields(made):
        name, value = field.name, getattr(made, field.name)
        value = judge_name(value) if isinstance(value, Judge) else value
        if not field.init or name in ("batch", "group"):
            continue
        if is_dataclass(value):
            yield from settings_of(value, prefix + name)
        else:
            yield prefix + name, value, described.get(name, "")


def _assignment(key: str, value: object) -> str:
    return f"{key.removesuffix('.name')}={json.dumps(value)}"


def _wrapped(setting: str, meaning: str, width: int) -> Iterator[str]:
    """A setting with its meaning beside it, in 100 columns."""
    first, *further = textwrap.wrap(meaning, max(40, 96 - width)) or [""]
    yield f"  {setting:{width}}  {first}".rstrip()
    yield from (" " * (width + 4) + line for line in further)


def document(name: str) -> dict[str, Any]:
    """A curriculum as JSON; your own has no card."""
    kind = curriculum_class(name)
    card = {} if ":" in name else asdict(curriculum_card(kind))
    return {
        "name": name,
        "summary": (kind.__doc__ or "").partition("\n")[0],
        **({"card": card} if card else {}),
        "needs": needs_of(kind()).described(),
        "defaults": defaults(kind),
        "presets": {preset: dict(settings) for preset, settings in presets(name).items()},
    }
