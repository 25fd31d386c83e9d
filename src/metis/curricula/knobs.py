"""The knobs of a curriculum with their defaults, as they are written on the command line."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from metis.core import Curriculum


def defaults(kind: type[Curriculum]) -> dict[str, Any]:
    """Every setting of a class but `batch` and `group`, which all have; sections are flattened."""
    shared = ("curriculum.batch", "curriculum.group")
    return {key: value for key, value in _flat("curriculum.", kind()) if key not in shared}


def sections(kind: type[Curriculum]) -> dict[str, type[Any]]:
    """The classes of a curriculum's own sections, by their place on the command line."""
    values = ((field.name, getattr(kind(), field.name)) for field in fields(kind) if field.init)  # type: ignore[arg-type]
    return {f"curriculum.{name}": type(value) for name, value in values if is_dataclass(value)}


def flat(settings: Mapping[str, Any], prefix: str = "curriculum.") -> dict[str, Any]:
    """A preset in the same form."""
    made: dict[str, Any] = {}
    for key, value in settings.items():
        section = isinstance(value, Mapping)
        made |= flat(value, f"{prefix}{key}.") if section else {prefix + key: value}
    return made


def _flat(prefix: str, settings: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.init and is_dataclass(value):
            yield from _flat(f"{prefix}{field.name}.", value)
        elif field.init:
            yield prefix + field.name, value
