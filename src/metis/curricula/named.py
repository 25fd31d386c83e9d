"""A curriculum by its name, or by where its class can be imported from: `package.module:Class`."""

import importlib
import os
import sys
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

from metis.core import Curriculum
from metis.curricula import CURRICULA
from metis.errors import MetisError


def find(name: str) -> type[Curriculum]:
    """The class that a name stands for; `name` is in CURRICULA, or has a colon."""
    if ":" not in name:
        return CURRICULA[name]
    place, _, class_name = name.partition(":")
    kind = getattr(_module(name, place), class_name, None)
    if not isinstance(kind, type):
        raise MetisError(f"curriculum = {name!r}: the module {place!r} has no class {class_name!r}")
    if flaw := _flaw(kind):
        raise MetisError(
            f"curriculum = {name!r}: {flaw}; make it a dataclass that derives from "
            "metis.state.Stateful, with the knobs batch and group, and a method step"
        )
    return kind


def _module(name: str, place: str) -> ModuleType:
    """Import from what is installed, else from the folder that the command runs in."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(place)
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent and f"{place}.".startswith(f"{absent}."):
            raise MetisError(
                f"curriculum = {name!r}: there is no module {absent!r}; run from the folder it is "
                "in, set PYTHONPATH, or install it"
            ) from None
        raised = " ".join(f"{type(error).__name__}: {error}".split())
        raise MetisError(
            f"curriculum = {name!r}: importing {place!r} raised {raised}; "
            f"python -c 'import {place}' shows where"
        ) from error


def _flaw(kind: type[Any]) -> str | None:
    """What keeps a class from being a curriculum, if anything."""
    if not is_dataclass(kind):
        return f"{kind.__name__} is not a dataclass"
    knobs = {field.name for field in fields(kind) if field.init}
    for knob in ("batch", "group"):
        if knob not in knobs:
            return f"{kind.__name__} has no knob {knob!r}"
    for method in ("step", "state_dict", "load_state_dict"):
        if not callable(getattr(kind, method, None)):
            return f"{kind.__name__} has no method {method!r}"
    return None
