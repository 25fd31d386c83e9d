"""The words of `metis prepare math`: sets, their sources and the knobs, checked before any work."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields

from metis.data.math_sets import SETS
from metis.data.sources import Hub, Local, parse
from metis.errors import MetisError, require
from metis.prepare.math import PRESETS, Settings

KNOBS = (*(knob.name for knob in fields(Settings)), "preset")


def understand(words: Sequence[str]) -> tuple[dict[str, Local | Hub], Settings]:
    """The sources of the sets asked for (none named: all), and the settings."""
    sources: dict[str, Local | Hub] = {}
    knobs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key in SETS:
            usual = SETS[key].hub
            sources[key] = parse(value, key, usual) if equals else usual
        elif key in KNOBS and equals:
            knobs[key] = value
        else:
            raise MetisError(f"{word!r}: {_remedy(key, equals)}")
    return sources or {name: entry.hub for name, entry in SETS.items()}, _settings(knobs)


def _settings(knobs: Mapping[str, str]) -> Settings:
    preset = knobs.get("preset", "recommended")
    require(preset in PRESETS, "preset", preset, f"use {' or '.join(PRESETS)}")
    own = {key: value for key, value in knobs.items() if key != "preset"}
    return Settings(**{**PRESETS[preset], **own})


def _remedy(key: str, equals: str) -> str:
    if key in KNOBS:
        return f"a setting needs a value: {key}=VALUE"
    near = difflib.get_close_matches(key, [*SETS, *KNOBS] if equals else list(SETS), n=1)
    listing = f"the sets are {', '.join(SETS)}; the settings {', '.join(KNOBS)}"
    return f"did you mean {near[0]!r}?" if near else listing
