"""Curricula by name: their classes, knobs and presets, and the pools they refuse.

A name is one of CURRICULA, or an import string of a class of one's own.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Protocol, cast, runtime_checkable

from metis.core import Curriculum, state
from metis.core.dotted import leaves
from metis.core.importing import import_object, import_string_of, is_import_string
from metis.core.pool import Pool
from metis.curricula import CURRICULA
from metis.curricula.judges import JUDGES, Judge
from metis.errors import MetisError

Preset = Mapping[str, Any]


def curriculum_class(name: str) -> type[Curriculum]:
    """The class that a name stands for."""
    if not is_import_string(name):
        return CURRICULA[name]
    kind = import_object("curriculum", name)
    if flaw := _flaw(kind):
        raise MetisError(
            f"curriculum = {name!r}: {flaw}; make it a dataclass that derives from "
            "metis.core.Stateful, with the knobs batch and group, and a method step"
        )
    checked: type[Curriculum] = kind
    return checked


def presets(name: str) -> Mapping[str, Preset]:
    """The named settings of a curriculum, the default first; none of a name that is not known."""
    kind = curriculum_class(name) if is_import_string(name) else CURRICULA.get(name)
    declared: Mapping[str, Preset] = vars(kind).get("presets", {}) if kind else {}
    return declared


def defaults(kind: type[Curriculum]) -> dict[str, Any]:
    """Every setting of a class but `batch` and `group`, which all have; a judge is its name."""
    shared = ("curriculum.batch", "curriculum.group")
    values = ((knob.name, getattr(kind(), knob.name)) for knob in fields(kind) if knob.init)  # type: ignore[arg-type]
    named = {name: judge_name(v) if isinstance(v, Judge) else v for name, v in values}
    return {key: value for key, value in leaves(named, "curriculum.") if key not in shared}


def judge_of(kind: type[Curriculum]) -> Judge[Any] | None:
    """The judge that a curriculum has by default; None of one that asks none."""
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name == "judge" and field.default_factory is not MISSING:
            judge = field.default_factory()
            return judge if isinstance(judge, Judge) else None
    return None


def judge_class(name: str) -> type[Judge[Any]]:
    """The judge that a name stands for."""
    if not is_import_string(name):
        return JUDGES[name]
    kind: Any = import_object("curriculum.judge", name)
    bases = kind.__mro__ if isinstance(kind, type) and is_dataclass(kind) else ()
    if not {Judge, state.Stateful} <= {*bases}:
        raise MetisError(
            f"curriculum.judge = {name!r}: make it a dataclass that derives from "
            "metis.core.state.Stateful and metis.curricula.judges.Judge, with a method predict"
        )
    return cast("type[Judge[Any]]", kind)


def judge_name(judge: Judge[Any]) -> str:
    """The name that a judge is found by."""
    for name, kind in JUDGES.items():
        if type(judge) is kind:
            return name
    return import_string_of("curriculum.judge", type(judge))


@runtime_checkable
class Demanding(Protocol):
    """A curriculum that not every pool will do for: it says so before anything runs."""

    def check(self, pool: Pool) -> None: ...


def check_pool(pool: Pool, curriculum: Curriculum, batch: int) -> None:
    """Refuse a pool that a curriculum cannot work with, and state that cannot be saved."""
    if batch > len(pool):
        raise MetisError(
            f"batch = {batch}: the pool has only {len(pool)} prompts; use a smaller batch or a "
            "larger pool"
        )
    if isinstance(curriculum, Demanding):
        curriculum.check(pool)
    state.require_savable(curriculum)


def pool_notice(pool: Pool, curriculum: Curriculum, batch: int) -> list[str]:
    """A notice where the pool has fewer candidates than a curriculum asks for, and than twice the
    batch: it then has little to choose from.
    """
    if len(pool) >= min(2 * batch, candidates(curriculum, batch)):
        return []
    return [
        f"the pool has {len(pool)} prompts for {batch} places a step: most of it is trained on in "
        "every step; a smaller batch or a larger pool leaves something to choose"
    ]


def candidates(curriculum: Curriculum, batch: int) -> int:
    """The prompts that a curriculum draws for a step, m*B; the batch where it has no multiplier."""
    multiplier = getattr(curriculum, "multiplier", 1)
    return math.ceil(multiplier * batch) if isinstance(multiplier, int | float) else batch


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
