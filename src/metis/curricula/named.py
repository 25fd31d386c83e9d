"""A curriculum by its name, or by where its class can be imported from."""

from dataclasses import fields, is_dataclass
from typing import Any

from metis.core import Curriculum
from metis.curricula import CURRICULA
from metis.errors import MetisError
from metis.named import is_named, load


def find(name: str) -> type[Curriculum]:
    """The class that a name stands for; `name` is in CURRICULA, or has a colon."""
    if not is_named(name):
        return CURRICULA[name]
    kind = load("curriculum", name)
    if flaw := _flaw(kind):
        raise MetisError(
            f"curriculum = {name!r}: {flaw}; make it a dataclass that derives from "
            "metis.state.Stateful, with the knobs batch and group, and a method step"
        )
    found: type[Curriculum] = kind
    return found


def _flaw(kind: Any) -> str | None:
    """The flaw that keeps a class from being a curriculum, if any."""
    if not isinstance(kind, type):
        return f"it is {kind!r}, not a class"
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
