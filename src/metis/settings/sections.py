"""The task, curriculum and judge of a run's settings, each resolved with strict types.

A list of names may be written with commas: `loggers=wandb,tensorboard`.
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from metis.core import Curriculum
from metis.core.importing import FORMS, is_import_string
from metis.curricula import CURRICULA
from metis.curricula.filtered import FILTERS, Filtered
from metis.curricula.floors import Floor, Floors
from metis.curricula.judges import JUDGES, Judge
from metis.curricula.registry import (
    curriculum_class,
    judge_class,
    judge_name,
    judge_of,
    presets,
)
from metis.errors import MetisError, require
from metis.settings import keys
from metis.settings.training import RunSettings
from metis.tasks.base import Task
from metis.tasks.benchmarks.validation import Validated
from metis.tasks.own import task_entry
from metis.tasks.registry import TASKS, TaskEntry

Document = dict[str, Any]


@dataclass(frozen=True)
class TaskSection:
    """A task's name and its given settings."""

    name: str
    entry: TaskEntry
    given: Document

    @classmethod
    def read(cls, raw: Any) -> "TaskSection":
        name, given = named(raw, "task", TASKS)
        return cls(name, task_entry(name), given)

    @property
    def keys(self) -> list[str]:
        return ["task.name", *keys.dotted_names(self.entry.settings, "task.")]

    def require_known(self) -> None:
        """Refuse a key that the task does not have."""
        keys.require_known({"task": self.given}, self.keys, {"task": self.name}, self.mappings)

    @property
    def mappings(self) -> list[str]:
        """Keys of settings that are mappings, with arbitrary keys."""
        return keys.of_mappings(self.entry.settings, "task.")

    def derived(self, seed: int) -> dict[str, int]:
        """The data seed, for a task that has a `seed` setting and was given none."""
        follows = "task.seed" in self.keys and "seed" not in self.given
        return {"seed": seed} if follows else {}

    def resolve(self, seed: int) -> Any:
        """The settings, validated; a user's own task has its own class for them."""
        return validate(self.entry.settings, self.given | self.derived(seed), "task.")

    def document(self, task: Task | None, settings: Any, seed: int) -> Document:
        """The settings of the built task, which may complete them from its file."""
        if self.name in TASKS:
            settings = getattr(task, "settings", settings)
        return {"name": self.name, **_settings(settings, self.derived(seed))}


@dataclass(frozen=True)
class CurriculumSection:
    """A curriculum's name, preset, and given settings."""

    name: str
    kind: type[Curriculum]
    preset: str
    given: Document
    judge: "JudgeSection | None"
    floor: Document
    filter: "FilterSection | None"

    @classmethod
    def read(cls, raw: Any) -> "CurriculumSection":
        name, given = named(raw, "curriculum", CURRICULA)
        kind, choices = curriculum_class(name), presets(name) or {"": {}}
        preset = given.pop("preset", next(iter(choices)))
        if not isinstance(preset, str) or preset not in choices:
            names = ", ".join(filter(None, choices))
            remedy = f"use one of {names}" if names else f"{name} has no presets; leave it out"
            raise MetisError(f"curriculum.preset = {preset!r}: {remedy}")
        standard = judge_of(kind)
        judge = None
        if standard is not None:
            chosen = choices[preset].get("judge", {})
            judge = JudgeSection.read(given.pop("judge", {}), chosen, standard)
        floor = given.pop("floors", {})
        remedy = "it is a section, with prompts and categories"
        require(isinstance(floor, dict), keys.FLOOR, floor, remedy)
        sieve = FilterSection.read(given.pop("filter")) if "filter" in given else None
        return cls(name, kind, preset, given, judge, floor, sieve)

    @property
    def keys(self) -> list[str]:
        own = [key for key in keys.dotted_names(self.kind, "curriculum.") if key not in keys.SHARED]
        if self.judge is not None:
            own = [key for key in own if key != "curriculum.judge"] + self.judge.keys
        floor = keys.dotted_names(Floor, f"{keys.FLOOR}.")
        sieve = self.filter.keys if self.filter else [keys.FILTER]
        return ["curriculum.name", "curriculum.preset", *own, *floor, *sieve]

    @property
    def names(self) -> Document:
        """The curriculum, and its judge if it has one."""
        judge = {keys.JUDGE: self.judge.name} if self.judge else {}
        return {"curriculum": self.name, **judge}

    @property
    def written(self) -> Document:
        """The given settings, including the judge's."""
        judge = self.judge.given if self.judge else {}
        sieve = self.filter.given if self.filter else {}
        parts = {"judge": judge, "floors": self.floor, "filter": sieve}
        return {**self.given, **{name: part for name, part in parts.items() if part}}

    def resolve(self, batch: int, group: int) -> Curriculum:
        preset = presets(self.name).get(self.preset, {})
        settings = _merge(_merge(preset, self.given), {"batch": batch, "group": group})
        settings.pop("judge", None)
        parts = {"judge": self.judge.resolve()} if self.judge else {}
        made: Curriculum = validate(self.kind, settings, "curriculum.", parts)
        if self.filter is not None:
            made = Filtered(made, self.filter.resolve(batch, group))
        floor: Floor = validate(Floor, self.floor, f"{keys.FLOOR}.")
        return Floors(made, floor) if floor != Floor() else made

    def document(self, curriculum: Curriculum) -> Document:
        floor = {}
        if isinstance(curriculum, Floors):
            floor, curriculum = {"floors": _plain(curriculum.floor)}, curriculum.of
        if isinstance(curriculum, Filtered):
            floor, curriculum = {**floor, "filter": curriculum.section}, curriculum.of
        preset = {"preset": self.preset} if self.preset else {}
        document = {
            "name": self.name,
            **preset,
            **_settings(curriculum, ("batch", "group", "judge")),
        }
        if self.judge is not None:
            judge: Any = curriculum
            document["judge"] = {"name": self.judge.name, **_settings(judge.judge, ())}
        return document | floor


@dataclass(frozen=True)
class FilterSection:
    """The filter after a curriculum's rollouts: its name and given settings."""

    name: str
    given: Document

    @classmethod
    def read(cls, raw: Any) -> "FilterSection":
        name, given = named(
            {"name": "", **raw} if isinstance(raw, dict) else raw, keys.FILTER, FILTERS
        )
        return cls(name, given)

    @property
    def kind(self) -> type[Any]:
        return FILTERS[self.name]

    @property
    def keys(self) -> list[str]:
        own = keys.dotted_names(self.kind, f"{keys.FILTER}.")
        shared = [f"{keys.FILTER}.{name}" for name in ("batch", "group")]
        return [f"{keys.FILTER}.name", *(key for key in own if key not in shared)]

    def resolve(self, batch: int, group: int) -> Any:
        """The curriculum selects B prompts, unless told otherwise: `multiplier` is 1."""
        settings = {"multiplier": 1.0, **self.given, "batch": batch, "group": group}
        return validate(self.kind, settings, f"{keys.FILTER}.")


@dataclass(frozen=True)
class JudgeSection:
    """A curriculum's judge: its name and given settings."""

    name: str
    kind: type[Judge[Any]]
    standard: Document
    """Defaults of the curriculum or its preset that differ from the judge's own."""
    given: Document

    @classmethod
    def read(cls, raw: Any, preset: Mapping[str, Any], own: Judge[Any]) -> "JudgeSection":
        """`own` is the curriculum's default judge; `preset`, then `raw`, may name another."""
        preset = {"name": judge_name(own), **preset}
        raw = {"name": preset["name"], **raw} if isinstance(raw, Mapping) else raw
        name, given = named(raw, keys.JUDGE, JUDGES)
        standard = {key: value for key, value in preset.items() if key != "name"}
        kind = judge_class(name)
        if name != preset["name"]:
            standard = {}
        elif type(own) is kind:
            standard = {**_settings(own, ()), **standard}
        return cls(name, kind, standard, given)

    @property
    def keys(self) -> list[str]:
        return [f"{keys.JUDGE}.name", *keys.dotted_names(self.kind, f"{keys.JUDGE}.")]

    def resolve(self) -> Judge[Any]:
        judge: Judge[Any] = validate(self.kind, self.standard | self.given, f"{keys.JUDGE}.")
        return judge


def curriculum_of(section: Any, batch: int, group: int) -> Curriculum:
    """The curriculum of a section, for a trainer with its own settings (verl)."""
    read = CurriculumSection.read(section)
    keys.require_known({"curriculum": read.written}, read.keys, read.names)
    return read.resolve(batch, group)


def task_of(settings: Mapping[str, Any]) -> Task:
    """The task of a run's settings; other sections are ignored."""
    shared = {key: settings[key] for key in DATA if key in settings}
    training = validate(RunSettings, shared, "")
    section = TaskSection.read(settings.get("task", next(iter(TASKS))))
    section.require_known()
    task = section.entry.build(section.resolve(training.data), training.data)
    if not training.benchmarks:
        return task
    return Validated(task, training.benchmarks, training.benchmark_limit)


def task_settings(raw: Any) -> Any:
    """The settings of a task, without reading its files; None for a user's own task."""
    section = TaskSection.read(raw)
    if section.name not in TASKS:
        return None
    section.require_known()
    return validate(section.entry.settings, section.given, "task.")


DATA = ("seed", "data_seed", "benchmarks", "benchmark_limit")
"""Top-level settings that a task depends on."""


def named(raw: Any, key: str, registry: Mapping[str, Any]) -> tuple[str, Document]:
    """The name and the settings of a section, which may be only a name."""
    table = {"name": raw} if isinstance(raw, str) else raw
    if not isinstance(table, dict):
        raise MetisError(f"{key} = {raw!r}: give a name, one of {', '.join(registry)}")
    table = dict(table)
    name = table.pop("name", next(iter(registry)))
    open_to_own = key not in ("engine", keys.FILTER)
    own = open_to_own and is_import_string(str(name))
    if not isinstance(name, str) or (name not in registry and not own):
        if instead := keys.foreign_name(key, str(name)):
            raise MetisError(f"{key} = {name!r}: {instead}")
        hint = f" (your own is {FORMS})" if open_to_own else ""
        raise MetisError(f"{key} = {name!r}: {keys.suggestion(str(name), list(registry))}{hint}")
    return name, table


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    merged = dict(base)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def _settings(of: Any, derived: Collection[str]) -> Document:
    """The settings of a section, except those derived from other sections."""
    names = [each.name for each in dataclasses.fields(of) if each.init and each.name not in derived]
    return {name: _plain(getattr(of, name)) for name in names}


def _plain(value: Any) -> Any:
    section = is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if section else value


T = TypeVar("T")


def validate(
    kind: type[T], raw: Mapping[str, Any], prefix: str, parts: Mapping[str, Any] | None = None
) -> T:
    """Build a dataclass from settings, with strict types; `parts` are already built."""
    try:
        text = json.dumps(listed(kind, raw), default=str)
        fields = tuple(raw) if parts else None
        # mypy takes a class for as hashable as its objects
        made: Any = _adapter(kind, fields).validate_json(text, strict=True)  # type: ignore[arg-type]
        return kind(**made, **parts) if parts else made
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(str(part) for part in first["loc"])
        key = key.removeprefix("curriculum.") if key in keys.SHARED else key
        message = first["msg"].replace("Input should be", "must be")
        if first["type"] in ("list_type", "tuple_type"):
            message = f"must be a list, such as '{key}=[{json.dumps(first['input'])}]'"
        raise MetisError(f"{key} = {first['input']!r}: {message}") from None


@cache
def _adapter(kind: Any, fields: tuple[str, ...] | None) -> TypeAdapter[Any]:
    """The validator of a dataclass, or of some of its fields; it takes long to build."""
    if fields is None:
        return TypeAdapter(kind)
    hints = get_type_hints(kind)
    plain: Any = TypedDict("plain", {name: hints[name] for name in fields})  # type: ignore[misc]
    return TypeAdapter(plain)


def listed(kind: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with strings split into lists, where the dataclass has a tuple of strings."""
    hints = get_type_hints(kind)
    return {
        key: names(value) if isinstance(value, str) and hints.get(key) == tuple[str, ...] else value
        for key, value in raw.items()
    }


def names(text: str) -> list[str]:
    """The parts between commas; a text with brackets is a single part, as it may contain commas."""
    parts = [text] if any(bracket in text for bracket in "[{(") else text.split(",")
    return [part.strip() for part in parts if part.strip()]
