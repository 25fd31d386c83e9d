"""Looks up curricula and judges by name: classes, settings, presets; checks the training set.

A name is one of CURRICULA, or an import string of your own class.
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
    """The class of a name or an import string."""
    if not is_import_string(name):
        return CURRICULA[name]
    kind = import_object("curriculum", name)
    if flaw := _flaw(kind):
        raise MetisError(
            f"curriculum = {name!r}: {flaw}; make it a dataclass that derives from "
            "metis.core.Stateful, with the settings batch and group, and a method step"
        )
    checked: type[Curriculum] = kind
    return checked


def presets(name: str) -> Mapping[str, Preset]:
    """The presets of a curriculum, the default first; none for an unknown name."""
    kind = curriculum_class(name) if is_import_string(name) else CURRICULA.get(name)
    declared: Mapping[str, Preset] = vars(kind).get("presets", {}) if kind else {}
    return declared


def defaults(kind: type[Curriculum]) -> dict[str, Any]:
    """Every default setting of a class except `batch` and `group`; a judge by its name."""
    shared = ("curriculum.batch", "curriculum.group")
    values = ((each.name, getattr(kind(), each.name)) for each in fields(kind) if each.init)  # type: ignore[arg-type]
    named = {name: judge_name(v) if isinstance(v, Judge) else v for name, v in values}
    return {key: value for key, value in leaves(named, "curriculum.") if key not in shared}


def judge_of(kind: type[Curriculum]) -> Judge[Any] | None:
    """The default judge of a curriculum; None if it has no judge."""
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name == "judge" and field.default_factory is not MISSING:
            judge = field.default_factory()
            return judge if isinstance(judge, Judge) else None
    return None


def judge_class(name: str) -> type[Judge[Any]]:
    """The judge class of a name or an import string."""
    if not is_import_string(name):
        return JUDGES[name]
    kind: Any = import_object("curriculum.judge", name)
    bases = kind.__mro__ if isinstance(kind, type) and is_dataclass(kind) else ()
    kept = any(not knob.init for knob in fields(kind)) if Judge in bases else False
    if Judge not in bases or (kept and state.Stateful not in bases):
        raise MetisError(
            f"curriculum.judge = {name!r}: make it a dataclass that derives from "
            "metis.core.state.Stateful and metis.curricula.judges.Judge, with a method predict"
        )
    return cast("type[Judge[Any]]", kind)


def judge_name(judge: Judge[Any]) -> str:
    """The name or import string of a judge."""
    for name, kind in JUDGES.items():
        if type(judge) is kind:
            return name
    return import_string_of("curriculum.judge", type(judge))


@runtime_checkable
class ChecksPool(Protocol):
    """A curriculum that checks the training set before a run."""

    def check(self, pool: Pool) -> None: ...


def check_pool(pool: Pool, curriculum: Curriculum, batch: int) -> None:
    """Refuse a training set that the curriculum cannot use, or state that cannot be saved."""
    if batch > len(pool):
        raise MetisError(
            f"batch = {batch}: the training set has only {len(pool)} prompts; use a smaller batch "
            "or more prompts"
        )
    if isinstance(curriculum, ChecksPool):
        curriculum.check(pool)
    state.require_savable(curriculum)


def pool_notice(pool: Pool, curriculum: Curriculum, batch: int) -> list[str]:
    """A notice if there are fewer prompts than candidates per step, and than twice the batch."""
    if len(pool) >= min(2 * batch, candidates(curriculum, batch)):
        return []
    return [
        f"the training set has {len(pool)} prompts for a batch of {batch}: most are trained on in "
        "every step; use a smaller batch or more prompts, so that there is something to select"
    ]


def candidates(curriculum: Curriculum, batch: int) -> int:
    """The candidates per step: m*B, or B without a multiplier."""
    multiplier = getattr(curriculum, "multiplier", 1)
    return math.ceil(multiplier * batch) if isinstance(multiplier, int | float) else batch


def _flaw(kind: Any) -> str | None:
    """Why a class is not a curriculum, or None."""
    if not isinstance(kind, type):
        return f"it is {kind!r}, not a class"
    if not is_dataclass(kind):
        return f"{kind.__name__} is not a dataclass"
    settings = {field.name for field in fields(kind) if field.init}
    for name in ("batch", "group"):
        if name not in settings:
            return f"{kind.__name__} has no setting {name!r}"
    for method in ("step", "state_dict", "load_state_dict"):
        if not callable(getattr(kind, method, None)):
            return f"{kind.__name__} has no method {method!r}"
    return None
