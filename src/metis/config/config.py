"""A run's configuration: sparse TOML and key=value in, one validated and complete object out.

Every section is a dataclass next to the code that uses it. An unknown key is refused with the
nearest known one, a wrong type with the key and the value; nothing is created before all is valid.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metis.config import recipe
from metis.config.origins import origins
from metis.config.recipe import Setting
from metis.core import Curriculum
from metis.core.dotted import leaves
from metis.core.pool import Pool
from metis.engines import ENGINES, EngineEntry, EngineSettings
from metis.errors import MetisError, require, tolerating_missing_data
from metis.settings import keys
from metis.settings.sections import CurriculumSection, TaskSection, named, validate
from metis.settings.training import RunSettings
from metis.tasks.base import Task
from metis.tasks.base import notices as task_notices
from metis.tasks.benchmarks.validation import Validated

SCHEMA = 1
QUICKSTART = "quickstart"
"""The origin of settings without a recipe."""


@dataclass(frozen=True)
class Config:
    """The validated, complete configuration of a run."""

    training: RunSettings
    engine_name: str
    engine: EngineSettings
    task: Task | None
    """None for an engine that has its own."""
    curriculum_name: str
    curriculum: Curriculum
    resolved: dict[str, Any]
    """The settings as JSON: the content of `config.json`, which identifies the run."""
    may_change: tuple[str, ...]
    """Keys, or sections, that may change when a run is resumed."""
    notices: tuple[str, ...] = ()
    """Messages to show before the run."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The origin of each setting, by dotted key."""
    missing: tuple[str, ...] = ()
    """Missing data, in a dry run, and how to get it."""

    def pool(self) -> Pool | None:
        """The training prompts, without loading a model; None in a dry run without data."""
        entry = ENGINES[self.engine_name]
        if entry.plays_tasks and self.task is None:
            return None
        return entry.pool(self.engine, self.task, self.training.seed, self.training.data)


@dataclass(frozen=True)
class EngineSection:
    """An engine's name and its given settings."""

    name: str
    entry: EngineEntry
    given: dict[str, Any]

    @classmethod
    def read(cls, raw: Any) -> "EngineSection":
        name, given = named(raw, "engine", ENGINES)
        return cls(name, ENGINES[name], given)

    @property
    def keys(self) -> list[str]:
        return ["engine.name", *keys.dotted_names(self.entry.settings, "engine.")]

    @property
    def may_change(self) -> tuple[str, ...]:
        """Keys that may change when a run is resumed."""
        return tuple(f"engine.{key}" for key in getattr(self.entry.settings, "MAY_CHANGE", ()))

    def resolve(self) -> EngineSettings:
        settings: EngineSettings = validate(self.entry.settings, self.given, "engine.")
        return settings

    def document(self, settings: EngineSettings) -> dict[str, Any]:
        return {"name": self.name, **dataclasses.asdict(settings)}


def load_config(path: Path | None, overrides: Sequence[str], dry: bool = False) -> Config:
    """Read a recipe (TOML, or a run's config.json), apply key=value overrides, validate it."""
    return assemble(path, [recipe.split_override(override) for override in overrides], dry)


def assemble(path: Path | None, settings: Sequence[Setting], dry: bool = False) -> Config:
    """Like `load_config`, with the overrides as dotted keys and values."""
    raw = recipe.read_recipe(path) if path else recipe.default_recipe(settings)
    quick = not path and bool(raw) and bool(settings)
    before = recipe.preset_of(raw)
    recipe.override(raw, settings)
    config = resolve(raw, dry)
    source = f"recipe {path.name}" if path else QUICKSTART
    origin_of = origins(config.resolved, raw, settings, source)
    config = dataclasses.replace(config, origins=origin_of)
    if quick:
        config = dataclasses.replace(config, notices=(_quickstart(config), *config.notices))
    if before and recipe.preset_of(raw) is None:
        used = config.resolved["curriculum"].get("preset")
        instead = f"using its preset {used!r}" if used else "using its defaults"
        notice = f"{config.curriculum_name} has no preset {before!r}, the recipe's; {instead}"
        config = dataclasses.replace(config, notices=(notice, *config.notices))
    return config


def _quickstart(config: Config) -> str:
    """A notice about the quickstart's settings that are used besides the given ones."""
    told = {"steps": "{} steps", "engine.max_tokens": "answers of {} tokens"}
    values = dict(leaves(config.resolved))
    held = [
        words.format(values[key])
        for key, words in told.items()
        if config.origins[key] == QUICKSTART
    ]
    which = f" ({', '.join(held)})" if held else ""
    return f"quickstart settings{which}: name another task or a recipe for the defaults"


def resolve(raw: Mapping[str, Any], dry: bool = False) -> Config:
    """Validate settings and fill in defaults; a dry run may lack its data."""
    rest = dict(raw)
    engine = EngineSection.read(rest.pop("engine", "local"))
    if not engine.entry.plays_tasks and "task" in rest:
        raise MetisError(f"task = {rest['task']!r}: the {engine.name} engine has its own")
    task = TaskSection.read(rest.pop("task", "arithmetic"))
    curriculum = CurriculumSection.read(rest.pop("curriculum", "metis"))
    _require_known(rest, engine, task, curriculum)
    training = validate(RunSettings, rest, "")
    engine_settings = engine.resolve()
    notices: list[str] = []
    missing: list[str] = []
    played = engine.entry.plays_tasks
    task_settings = task.resolve(training.data) if played else None
    made = curriculum.resolve(training.batch, training.group)
    player: Task | None = None
    with tolerating_missing_data(dry, missing):
        player = task.entry.build(task_settings, training.data) if played else None
    task_document = task.document(player, task_settings, training.data) if played else {}
    with tolerating_missing_data(dry, missing):
        player = _validated(player, engine, training, notices)
    resolved = {
        "schema": SCHEMA,
        **dataclasses.asdict(training),
        "engine": engine.document(engine_settings),
        **({"task": task_document} if played else {}),
        "curriculum": curriculum.document(made),
    }
    return Config(
        *(training, engine.name, engine_settings, player, curriculum.name, made),
        json.loads(json.dumps(resolved)),
        (*RunSettings.MAY_CHANGE, *engine.may_change),
        (*(f"without its data, for now: {each}" for each in missing), *notices),
        missing=tuple(missing),
    )


def _require_known(
    rest: Mapping[str, Any], engine: EngineSection, task: TaskSection, curriculum: CurriculumSection
) -> None:
    """Refuse a key that no section has."""
    played = engine.entry.plays_tasks
    dotted_keys = [*keys.dotted_names(RunSettings, ""), *engine.keys, *curriculum.keys]
    dotted_keys += task.keys if played else ["task.name"]
    given = {**rest, "engine": engine.given, "curriculum": curriculum.written, "task": task.given}
    names = {**curriculum.names, "task": task.name}
    keys.require_known(given, dotted_keys, names, task.mappings)


def _validated(
    task: Task | None, engine: EngineSection, training: RunSettings, notices: list[str]
) -> Task | None:
    """The task, validated on benchmarks if any are named; None if a dry run could not build it."""
    benchmarks = training.benchmarks
    notices += task_notices(task) if task is not None else ()
    if not benchmarks:
        return task
    remedy = f"the {engine.name} engine has its own validation; leave it out"
    require(engine.entry.plays_tasks, "benchmarks", list(benchmarks), remedy)
    if task is None:
        return None
    validated = Validated(task, benchmarks, training.benchmark_limit)
    notices += validated.notices
    return validated
