"""Turns Python objects (tasks, curricula, judges, rewards) into settings.

A run is rebuilt from its settings, when it is resumed or on verl's workers, so an object becomes
its import string and its settings. A reward may also be a function that only this process has.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from metis.core import in_memory
from metis.core.dotted import leaves
from metis.core.importing import import_string_of
from metis.curricula import CURRICULA
from metis.curricula.filtered import Filtered
from metis.curricula.floors import Floors
from metis.curricula.judges import JUDGES, Judge
from metis.curricula.registry import presets
from metis.errors import MetisError

REWARD = "task.reward"
"""The setting that may be a function of this process alone."""


def as_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace classes, instances and functions by what a recipe would say: names and settings."""
    recipe = dict(settings)
    for key in recipe.keys() & {"task", "curriculum"}:
        given = recipe[key]
        if isinstance(given, Mapping):
            recipe[key] = {name: _part(f"{key}.{name}", part) for name, part in given.items()}
        elif not isinstance(given, str):
            recipe[key] = _section(key, given)
    if not isinstance(settings.get("curriculum"), Mapping | str | None):
        _lift_sizes(recipe)
    return recipe


def _lift_sizes(recipe: dict[str, Any]) -> None:
    """Move batch and group from a curriculum instance to the run's settings."""
    for name in ("batch", "group"):
        size = recipe["curriculum"].pop(name, None)
        if size is not None and recipe.setdefault(name, size) != size:
            raise MetisError(f"{name} = {recipe[name]!r}: the curriculum has {size!r}; set it once")


def _section(key: str, given: Any) -> dict[str, Any]:
    """The section of a class, or of an instance with its settings."""
    if isinstance(given, type):
        return {"name": _called(key, given)}
    if not is_dataclass(given):
        raise MetisError(
            f"{key} = {given!r}: a run is rebuilt from its settings; give a class, or make it a "
            "dataclass, whose fields are settings"
        )
    if isinstance(given, Floors):
        return {**_section(key, given.of), "floors": asdict(given.floor)}
    if isinstance(given, Filtered):
        return {**_section(key, given.described), "filter": given.section}
    name = _called(key, type(given))
    values = ((each.name, getattr(given, each.name)) for each in fields(given) if each.init)
    settings = {setting: _part(f"{key}.{setting}", value) for setting, value in values}
    preset = _preset(name, settings) if key == "curriculum" else {}
    return {"name": name, **preset, **settings}


def _part(key: str, value: Any) -> Any:
    """A judge as name and settings, another dataclass as settings, a class or function as name."""
    if key == REWARD:
        return _called(key, value)
    if isinstance(value, Judge) and not isinstance(value, type):
        return _section(key, value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return _called(key, value)


def _preset(name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The preset that matches these settings, the largest if there are several."""
    values, held = dict(leaves(given)), {}
    for label, preset in presets(name).items():
        settings = dict(leaves(preset))
        if all(values[key] == value for key, value in settings.items()):
            held[label] = len(settings)
    return {"preset": max(held, key=lambda label: held[label])} if held else {}


def _called(key: str, given: Any) -> Any:
    """The name or import string of a class or function; other values unchanged."""
    for name, kind in (*CURRICULA.items(), *JUDGES.items()):
        if given is kind:
            return name
    if not callable(given):
        return given
    if key == REWARD and not in_memory.importable(given):
        return in_memory.remember(given)
    return import_string_of(key, given)
