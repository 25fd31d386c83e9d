"""Comma-separated lists on the command line: `loggers=wandb`, `loggers=wandb,tensorboard`."""

from collections.abc import Mapping
from typing import Any, get_type_hints


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
