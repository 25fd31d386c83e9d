"""Shell completion of recipes, settings and curricula, for argcomplete."""

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from metis.config import recipe
from metis.config.config import EngineSection
from metis.curricula import CURRICULA
from metis.curricula.filtered import FILTERS
from metis.curricula.floors import Floor
from metis.curricula.judges import JUDGES
from metis.curricula.registry import presets
from metis.engines import ENGINES
from metis.errors import MetisError
from metis.settings import keys
from metis.settings.sections import CurriculumSection, TaskSection
from metis.settings.training import RunSettings
from metis.tasks.registry import TASKS

Choices = dict[str, tuple[str, ...]]
"""The values of each key; none where any may be given."""


def settings(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Completions of the word `prefix`: recipes and folders, keys, or the values of a key.

    Keys are those of the engine, the task and the curriculum that the words before it name.
    """
    given = [word for word in _before(parsed_args) if word != prefix]
    known = choices(_raw(given))
    key, equals, _value = prefix.partition("=")
    if equals:
        return [f"{key}={value}" for value in known.get(key, ())]
    return [*_files(prefix), *(f"{key}=" for key in known)]


def _before(parsed_args: argparse.Namespace) -> list[str]:
    """The recipe and settings among the words before the cursor."""
    return getattr(parsed_args, "settings", None) or getattr(parsed_args, "recipe", None) or []


def choices(raw: Mapping[str, Any]) -> Choices:
    """Every key of a run with these settings, and its values."""
    engine = EngineSection.read(raw.get("engine", "local"))
    found = {"engine": tuple(ENGINES), **_of(engine.entry.settings, "engine.")}
    if engine.entry.plays_tasks:
        task = TaskSection.read(raw.get("task", "arithmetic"))
        found |= {"task": tuple(TASKS), **_of(task.entry.settings, "task.")}
    curriculum = CurriculumSection.read(raw.get("curriculum", "metis"))
    found |= {"curriculum": tuple(CURRICULA), **_of(RunSettings, "")}
    found |= {**_of(curriculum.kind, "curriculum."), **_of(Floor, f"{keys.FLOOR}.")}
    found |= dict.fromkeys((keys.FILTER, *keys.SHORT), tuple(FILTERS))
    if curriculum.filter is not None:
        found |= _of(curriculum.filter.kind, f"{keys.FILTER}.")
    if named := tuple(filter(None, presets(curriculum.name))):
        found["curriculum.preset"] = named
    if curriculum.judge is not None:
        found |= {keys.JUDGE: tuple(JUDGES), **_of(curriculum.judge.kind, f"{keys.JUDGE}.")}
    return {key: values for key, values in found.items() if key not in keys.SHARED}


def _raw(given: list[str]) -> dict[str, Any]:
    """The settings in the words before the cursor; unreadable ones are skipped."""
    try:
        path, overrides = recipe.parse_arguments(given)
        chosen = [recipe.split_override(word) for word in overrides]
        raw = recipe.read_recipe(path) if path else recipe.default_recipe(chosen)
        recipe.override(raw, chosen)
        choices(raw)
    except MetisError:
        return {}
    return raw


def _of(kind: type[Any], prefix: str) -> Choices:
    """The settings of a dataclass, including its sections, and their values."""
    hints, found = get_type_hints(kind), Choices()
    for item in dataclasses.fields(kind):
        hint = hints[item.name]
        if item.init and dataclasses.is_dataclass(hint):
            found |= _of(hint, f"{prefix}{item.name}.")  # type: ignore[arg-type]
        elif item.init:
            found[prefix + item.name] = tuple(_values(hint))
    return found


def _values(hint: Any) -> Iterator[str]:
    if hint is bool:
        yield from ("true", "false")
    elif get_origin(hint) is Literal:
        yield from map(str, get_args(hint))


def _files(prefix: str) -> Iterator[str]:
    """Recipes and folders."""
    folder, _, start = prefix.rpartition("/")
    place = Path(folder or ("/" if prefix.startswith("/") else "."))
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            name = prefix[: len(prefix) - len(start)] + path.name
            if path.is_dir():
                yield f"{name}/"
            elif path.suffix == ".toml" or path.name == "config.json":
                yield name


def curricula(**_: object) -> list[str]:
    """The names of curricula."""
    return list(CURRICULA)


ANSWERS = {"settings": settings, "name": curricula, "recipe": settings}
"""Completers of the arguments of commands, by their names in the parser."""
