"""Parts of a run that are given as Python objects, written as the settings they stand for.

A run is made again from its settings, when it is resumed or on the workers of verl, so an object is
its name and its knobs.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from metis.core.dotted import leaves
from metis.core.importing import name_of
from metis.curricula import CURRICULA
from metis.curricula.judges import JUDGES, Judge
from metis.curricula.registry import presets
from metis.errors import MetisError


def written(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Classes, instances and functions by their names and knobs, as a recipe would have them."""
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
    """Batch and group are a run's; a curriculum that was made with them says them of it."""
    for name in ("batch", "group"):
        size = recipe["curriculum"].pop(name, None)
        if size is not None and recipe.setdefault(name, size) != size:
            raise MetisError(f"{name} = {recipe[name]!r}: the curriculum has {size!r}; say it once")


def _section(key: str, given: Any) -> dict[str, Any]:
    """A class, or an instance with the knobs it was made with."""
    if isinstance(given, type):
        return {"name": _called(key, given)}
    if not is_dataclass(given):
        raise MetisError(
            f"{key} = {given!r}: a run is made again from its settings; give a class, or make it a "
            "dataclass, whose fields are settings"
        )
    name = _called(key, type(given))
    values = ((knob.name, getattr(given, knob.name)) for knob in fields(given) if knob.init)
    knobs = {knob: _part(f"{key}.{knob}", value) for knob, value in values}
    preset = _preset(name, knobs) if key == "curriculum" else {}
    return {"name": name, **preset, **knobs}


def _part(key: str, value: Any) -> Any:
    """A judge by its name and settings, another section as its settings, the rest by its name."""
    if isinstance(value, Judge) and not isinstance(value, type):
        return _section(key, value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return _called(key, value)


def _preset(name: str, knobs: Mapping[str, Any]) -> dict[str, str]:
    """The preset that a curriculum was made with: of those that hold, the one that says most."""
    values, held = dict(leaves(knobs)), {}
    for label, preset in presets(name).items():
        settings = dict(leaves(preset))
        if all(values[key] == value for key, value in settings.items()):
            held[label] = len(settings)
    return {"preset": max(held, key=lambda label: held[label])} if held else {}


def _called(key: str, given: Any) -> Any:
    """The name of a class or a function; other values as they are."""
    for name, kind in (*CURRICULA.items(), *JUDGES.items()):
        if given is kind:
            return name
    return name_of(key, given) if callable(given) else given
