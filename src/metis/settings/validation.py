"""Builds a dataclass from settings, with strict types and an error that names the key.

A list of names may be written with commas: `loggers=wandb,tensorboard`.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from metis.errors import MetisError
from metis.settings import keys

T = TypeVar("T")


def validate(
    kind: type[T], raw: Mapping[str, Any], prefix: str, parts: Mapping[str, Any] | None = None
) -> T:
    """Build a dataclass from settings, with strict types; `parts` are already built."""
    try:
        text = json.dumps(listed(kind, raw), default=str)
        if not parts:
            return TypeAdapter(kind).validate_json(text, strict=True)
        hints = get_type_hints(kind)
        plain: Any = TypedDict("plain", {name: hints[name] for name in raw})  # type: ignore[misc]
        return kind(**TypeAdapter(plain).validate_json(text, strict=True), **parts)
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(str(part) for part in first["loc"])
        key = key.removeprefix("curriculum.") if key in keys.SHARED else key
        message = first["msg"].replace("Input should be", "must be")
        if first["type"] in ("list_type", "tuple_type"):
            message = f"must be a list, such as '{key}=[{json.dumps(first['input'])}]'"
        raise MetisError(f"{key} = {first['input']!r}: {message}") from None


def listed(kind: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with strings split into lists, where the dataclass has a tuple of strings."""
    hints = get_type_hints(kind)
    return {
        key: names(value) if isinstance(value, str) and hints.get(key) == tuple[str, ...] else value
        for key, value in raw.items()
    }


def names(text: str) -> list[str]:
    """The parts between commas; a text with brackets is a single part, as it may contain commas."""
    parts = [text] if any(bracket in text for bracket in "[{(") else text.split(",")
    return [part.strip() for part in parts if part.strip()]
