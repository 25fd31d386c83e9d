"""Reads recipes (TOML or a run's config.json) and applies key=value overrides."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from metis.curricula.registry import presets
from metis.engines import ENGINES
from metis.errors import MetisError, require
from metis.run import manifest, models
from metis.settings import keys
from metis.settings.sections import CurriculumSection

Setting = tuple[str, Any]
"""A dotted key and its value."""


def parse_arguments(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The recipe among the arguments of a command line, if any, and the key=value overrides."""
    recipes = [word for word in words if "=" not in word]
    if len(recipes) > 1:
        raise MetisError(f"more than one recipe: {', '.join(recipes)}; settings are key=value")
    return (Path(recipes[0]) if recipes else None), [word for word in words if "=" in word]


def read_recipe(path: Path) -> dict[str, Any]:
    """The settings in a recipe, or in a run's config.json."""
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return manifest.settings_of(json.loads(text))
        return tomllib.loads(text)
    except OSError as error:
        hint = "; settings are key=value, such as curriculum=metis" if not path.suffix else ""
        if models.run_settings(path) is not None:
            hint = f"; the settings of this run are {str(path / 'config.json')!r}"
        raise MetisError(f"recipe {str(path)!r}: {error.strerror or error}{hint}") from None
    except (ValueError, RecursionError, AttributeError) as error:
        raise MetisError(f"recipe {str(path)!r} cannot be read: {error}") from None


def default_recipe(settings: Sequence[Setting]) -> dict[str, Any]:
    """The quickstart; or nothing (the defaults) if another engine or task is named."""
    text = resources.files("metis").joinpath("quickstart.toml").read_text("utf-8")
    quickstart = tomllib.loads(text)
    for key, value in settings:
        section = key.removesuffix(".name")
        if section in ("engine", "task") and value != quickstart[section]["name"]:
            return {}
    return quickstart


def split_override(override: str) -> Setting:
    """A setting from key=value; a value that is not TOML is a string."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise MetisError(f"{override!r} is not a setting: write key=value, such as steps=100")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return key, text
    return key, parsed["value"] if len(parsed) == 1 else text


def override(raw: dict[str, Any], settings: Sequence[Setting]) -> None:
    """Apply settings; those that affect others (names, presets) go first."""
    named = [(_section(key), value) for key, value in settings]
    for key, value in sorted(named, key=lambda setting: _rank(setting[0])):
        _apply(raw, key, value)


def revised(document: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Settings of a run with overrides of its task, as key=value."""
    raw: dict[str, Any] = json.loads(json.dumps(document))
    settings = [split_override(override) for override in overrides]
    for key, value in settings:
        require(key.split(".")[0] == "task", key, value, "only the task's can be set here")
    override(raw, settings)
    return raw


def preset_of(raw: Mapping[str, Any]) -> Any:
    """The preset that a recipe names, if any."""
    section = raw.get("curriculum")
    return section.get("preset") if isinstance(section, dict) else None


def _section(key: str) -> str:
    """The section that a key names, `task` of `task.name`; any other key in full."""
    key = keys.in_full(key)
    section = key.removesuffix(".name")
    return section if section in keys.SECTIONS else key


def _rank(key: str) -> int:
    """The order to apply settings: names of sections, preset, name of the judge, the rest."""
    first = [*keys.SECTIONS[:3], "curriculum.preset", keys.JUDGE, keys.FILTER]
    return first.index(key) if key in first else len(first)


def _apply(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; a new preset drops the recipe's curriculum settings."""
    *parents, last = key.split(".")
    if not parents and last in keys.SECTIONS and isinstance(value, str):
        raw[last] = {**_kept(raw.get(last, {}), last, value), "name": value}
        return
    if key == "curriculum.preset" and value != preset_of(raw):
        old = raw.get("curriculum", {})
        if isinstance(old, dict):
            raw["curriculum"] = {"name": old["name"]} if "name" in old else {}
    table = raw
    for parent in parents:
        child = table.get(parent, {})
        if isinstance(child, str) and parent in ("judge", "filter", *keys.SECTIONS):
            child = {"name": child}
        if not isinstance(child, dict):
            raise MetisError(f"{key} = {value!r}: {parent!r} is {child!r}, not a section")
        table[parent] = child
        table = child
    if key != keys.JUDGE or not isinstance(table.get(last), dict) or _judge(raw) != value:
        table[last] = value


def _judge(raw: Mapping[str, Any]) -> str:
    """The judge that settings stand for: the one they name, or their preset's, or curriculum's."""
    named: dict[str, Any] = raw["curriculum"]
    if "name" in named["judge"]:
        return str(named["judge"]["name"])
    section = CurriculumSection.read(
        {key: named[key] for key in ("name", "preset") if key in named}
    )
    return section.judge.name if section.judge else ""


def _kept(section: Any, key: str, name: str) -> dict[str, Any]:
    """Settings of a section that are kept when its name changes.

    An engine keeps settings that the new one also has, a curriculum its preset if the new one also
    has it, a task nothing.
    """
    old: dict[str, Any] = section if isinstance(section, dict) else {"name": section}
    if old.get("name", name) == name:
        return old
    if key == "engine" and name in ENGINES:
        shared = set(keys.dotted_names(ENGINES[name].settings, ""))
        return {setting: old[setting] for setting in old if setting in shared}
    if key == "curriculum" and str(old.get("preset")) in presets(name):
        return {"preset": old["preset"]}
    return {}
