"""Origins of settings: command line, recipe, preset, data or default."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from metis.core.dotted import leaves
from metis.curricula.registry import presets
from metis.settings.keys import SECTIONS, in_full
from metis.tasks.registry import TASKS

COMMAND_LINE, DATA, DEFAULT = "command line", "data", "default"


def origins(
    resolved: Mapping[str, Any],
    given: Mapping[str, Any],
    typed: Sequence[tuple[str, Any]],
    recipe: str,
) -> dict[str, str]:
    """The origin of every setting of a run, by dotted key.

    `given` are the settings of a recipe with overrides applied; `typed` are the overrides.
    """
    words = _flattened({in_full(key): value for key, value in typed})
    written = _flattened(given)
    preset = resolved["curriculum"].get("preset", "")
    chosen = presets(resolved["curriculum"]["name"]).get(preset, {})
    of_preset = dict(leaves(chosen, "curriculum."))
    origin_of = {}
    for key, value in leaves(resolved):
        if key in written:
            origin_of[key] = COMMAND_LINE if key in words else recipe
        elif key in of_preset:
            origin_of[key] = f"preset {preset}"
        else:
            origin_of[key] = DATA if _completed(resolved, key, value) else DEFAULT
    return origin_of


def _flattened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key; a section given as a string has only its name."""
    values = leaves(settings)
    return {f"{key}.name" if _is_name(key, value) else key: value for key, value in values}


def _is_name(key: str, value: Any) -> bool:
    return key in SECTIONS and isinstance(value, str)


def _completed(resolved: Mapping[str, Any], key: str, value: Any) -> bool:
    """True for a task setting that was not given and was read from the task's file."""
    section, _, name = key.partition(".")
    task = TASKS.get(resolved["task"]["name"]) if section == "task" else None
    defaults = {item.name: item.default for item in fields(task.settings)} if task else {}
    return isinstance(value, str) and defaults.get(name, value) != value
