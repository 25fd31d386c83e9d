"""Provenance of the settings of a run: command line, recipe, preset, data or default."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from metis.curricula.registry import flat, presets
from metis.tasks import TASKS

COMMAND_LINE, DATA, DEFAULT = "command line", "data", "default"


def origins(
    resolved: Mapping[str, Any],
    given: Mapping[str, Any],
    typed: Sequence[tuple[str, Any]],
    recipe: str,
) -> dict[str, str]:
    """The origin of every setting of a run, by dotted key.

    `given` are the settings of a recipe with what was typed put in place.
    """
    words = dict(leaves(dict(typed)))
    written = dict(leaves(given))
    preset = resolved["curriculum"].get("preset", "")
    knobs = flat(presets(resolved["curriculum"]["name"]).get(preset, {}))
    origin_of = {}
    for key, value in leaves(resolved):
        if key in written:
            origin_of[key] = COMMAND_LINE if key in words else recipe
        elif key in knobs:
            origin_of[key] = f"preset {preset}"
        else:
            origin_of[key] = DATA if _completed(resolved, key, value) else DEFAULT
    return origin_of


def leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; a section that is written as its name has just that."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        elif isinstance(value, str) and prefix + key in ("engine", "task", "curriculum"):
            yield f"{key}.name", value
        else:
            yield prefix + key, value


def _completed(resolved: Mapping[str, Any], key: str, value: Any) -> bool:
    """True for a setting of a task that was left open and read from the task's file."""
    section, _, name = key.partition(".")
    task = TASKS.get(resolved["task"]["name"]) if section == "task" else None
    defaults = {item.name: item.default for item in fields(task.settings)} if task else {}
    return isinstance(value, str) and defaults.get(name, value) != value
