"""Flattens nested settings into dotted keys, such as `curriculum.judge.scale`."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def leaves(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a mapping or a dataclass; an empty section is a value itself."""
    for name, value in _items(settings):
        if _items(value):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _items(value: Any) -> list[tuple[str, Any]]:
    """The settings of a section; a single value, or an empty mapping, has none."""
    if isinstance(value, Mapping):
        return list(value.items())
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name)) for each in fields(value) if each.init]
    return []
