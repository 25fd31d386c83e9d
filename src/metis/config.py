"""Configuration: sparse TOML and key=value in, one checked and complete settings object out.

Every section is a dataclass next to the code that uses it. An unknown key is refused with the
nearest known one, a wrong type with the key and the value; nothing is made before all is checked.
"""

import dataclasses
import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from metis import identity, keys, sinks
from metis.account import Budget
from metis.core import Curriculum
from metis.curricula import CURRICULA
from metis.curricula import named as named_curricula
from metis.curricula.presets import PRESETS
from metis.engines import ENGINES
from metis.errors import MetisError, require, require_at_least, tolerating_missing_data
from metis.evals.validation import Validated
from metis.lists import listed
from metis.named import FORMS, is_named
from metis.provenance import origins
from metis.tasks import TASKS
from metis.tasks import named as named_tasks
from metis.tasks.base import Task

SCHEMA = 1


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints to resume from.

    every  steps between checkpoints
    keep   number of latest checkpoints to keep
    """

    every: int = 10
    keep: int = 2

    def __post_init__(self) -> None:
        require_at_least(self, {"every": 1, "keep": 1}, "checkpoints.")


@dataclass(frozen=True)
class Training:
    """Settings of every run, whatever its engine and curriculum.

    seed         fixes the pool's order, the curriculum's draws and the engine's sampling
    data_seed    fixes which prompts are trained on and which are held out; null takes `seed`
    steps        steps to take, 0 is no limit; steps that only measure difficulty count too
    tokens       stop after so many generated tokens; 0 is no limit
    processed    stop after so many tokens through a network, those only read too; 0 is no limit
    seconds      stop after so many seconds of training, validation not counted; 0 is no limit
    batch        B: prompts trained on in a step
    group        n: rollouts of each prompt
    evaluate     steps between validations; 0 validates before and after training only
    benchmarks   validation sets instead of the task's held-out prompts: names, suites or files as
                 in `metis eval --suite`; each has the same weight in the accuracy
    answers      answers of each group to keep in rollouts.jsonl; null keeps one of the first eight
                 groups of a step
    sinks        trackers that get a copy of the metrics: tensorboard, wandb, trackio
    """

    seed: int = 0
    data_seed: int | None = None
    steps: int = 200
    tokens: int = 0
    processed: int = 0
    seconds: float = 0.0
    batch: int = 32
    group: int = 8
    evaluate: int = 20
    benchmarks: tuple[str, ...] = ()
    answers: int | None = None
    sinks: tuple[str, ...] = ()
    checkpoints: Checkpoints = field(default_factory=Checkpoints)

    MAY_CHANGE: ClassVar = (
        *("steps", "tokens", "processed", "seconds", "evaluate"),
        *("answers", "sinks", "checkpoints"),
    )
    """Settings that a resumed run may change: its end, and what is tested and kept on the way."""

    def __post_init__(self) -> None:
        least = {"seed": 0, "steps": 0, "tokens": 0, "processed": 0, "seconds": 0}
        require_at_least(self, {**least, "batch": 1, "group": 2, "evaluate": 0})
        for key in ("data_seed", "answers"):
            value = getattr(self, key)
            require(value is None or value >= 0, key, value, "use at least 0")
        limited = self.steps or self.tokens or self.processed or self.seconds
        require(bool(limited), "steps", self.steps, "set a limit: tokens, processed or seconds")
        sinks.check(self.sinks)

    @property
    def data(self) -> int:
        """The seed of the prompts."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, self.tokens, self.seconds, self.processed)


@dataclass(frozen=True)
class Config:
    """A run, complete and checked."""

    training: Training
    engine_name: str
    engine: Any
    task: Any
    """The task to play; None for an engine that brings its own."""
    curriculum_name: str
    curriculum: Curriculum
    resolved: dict[str, Any]
    """The same as JSON: what `config.json` holds, and what makes two runs the same run."""
    may_change: tuple[str, ...]
    """Keys, or sections, that do not: a run may be resumed with other values."""
    notices: tuple[str, ...] = ()
    """Remarks to read before it runs."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The origin of each setting, by dotted key."""


def parse(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The recipe among the words of a command line, if any, and the key=value overrides."""
    recipes = [word for word in words if "=" not in word]
    if len(recipes) > 1:
        raise MetisError(f"more than one recipe: {', '.join(recipes)}; settings are key=value")
    return (Path(recipes[0]) if recipes else None), [word for word in words if "=" in word]


def load(recipe: Path | None, overrides: Sequence[str], dry: bool = False) -> Config:
    """Read a recipe (TOML, or a run's config.json), apply key=value overrides, check it all."""
    return assemble(recipe, [_split(override) for override in overrides], dry)


def assemble(recipe: Path | None, settings: Sequence[tuple[str, Any]], dry: bool = False) -> Config:
    """The same with the overrides as dotted keys and values."""
    raw = _read_recipe(recipe) if recipe else _default_recipe(settings)
    before = _preset_of(raw)
    for key, value in sorted(settings, key=lambda setting: _rank(setting[0])):
        _apply(raw, key, value)
    config = resolve(raw, dry)
    known = origins(
        config.resolved, raw, settings, f"recipe {recipe.name}" if recipe else "quickstart"
    )
    config = dataclasses.replace(config, origins=known)
    if before and _preset_of(raw) is None:
        used = config.resolved["curriculum"].get("preset")
        instead = f"its preset {used!r} holds" if used else "its defaults hold"
        notice = f"{config.curriculum_name} has no preset {before!r}, the recipe's; {instead}"
        config = dataclasses.replace(config, notices=(notice, *config.notices))
    return config


def _rank(key: str) -> int:
    """The order of settings: those that settle others first, a section's name, then a preset."""
    return 0 if key in _NAMED else 1 if key == "curriculum.preset" else 2


def _preset_of(raw: Mapping[str, Any]) -> Any:
    section = raw.get("curriculum")
    return section.get("preset") if isinstance(section, dict) else None


def _default_recipe(settings: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The quickstart, unless another engine or task is named: then the defaults, which suit any."""
    text = resources.files("metis").joinpath("quickstart.toml").read_text("utf-8")
    quickstart = tomllib.loads(text)
    for key, value in settings:
        section = key.removesuffix(".name")
        if section in ("engine", "task") and value != quickstart[section]["name"]:
            return {}
    return quickstart


def resolve(raw: Mapping[str, Any], dry: bool = False) -> Config:
    """Check settings and fill in what they leave out; a dry run may do without its data."""
    sections = dict(raw)
    engine_name, engine_raw = _section(sections.pop("engine", "local"), "engine", ENGINES)
    plays_tasks = ENGINES[engine_name].plays_tasks
    if not plays_tasks and "task" in sections:
        raise MetisError(f"task = {sections['task']!r}: the {engine_name} engine brings its own")
    task_name, task_raw = _section(sections.pop("task", "arithmetic"), "task", TASKS)
    name, knobs = _section(sections.pop("curriculum", "metis"), "curriculum", CURRICULA)
    kind, played = named_curricula.find(name), named_tasks.find(task_name)
    known = [
        *keys.dotted(Training, ""),
        *keys.dotted(ENGINES[engine_name].settings, "engine."),
        *(key for key in keys.dotted(kind, "curriculum.") if key not in keys.SHARED),
        *(keys.dotted(played.settings, "task.") if plays_tasks else ()),
        *("engine.name", "task.name", "curriculum.name", "curriculum.preset"),
    ]
    given = {**sections, "engine": engine_raw, "curriculum": knobs, "task": task_raw}
    mappings = keys.of_mappings(played.settings, "task.")
    keys.require_known(given, known, {"curriculum": name, "task": task_name}, mappings)
    preset = knobs.pop("preset", next(iter(PRESETS.get(name, {"": {}}))))
    training = _check(Training, sections, "")
    engine = _check(ENGINES[engine_name].settings, engine_raw, "engine.")
    follows = "task.seed" in known and "seed" not in task_raw
    derived = {"seed": training.data} if follows else {}
    task: Any = _check(played.settings, task_raw | derived, "task.") if plays_tasks else None
    shared = {"batch": training.batch, "group": training.group}
    complete = _merge(_merge(_preset(name, preset), knobs), shared)
    curriculum = _check(kind, complete, "curriculum.")
    player, notices = None, list[str]()
    with tolerating_missing_data(dry, notices):
        player = played.build(task, training.data) if plays_tasks else None
    if task_name in TASKS:
        task = getattr(player, "settings", task)  # as it read them, which a file may complete
    resolved = {
        "schema": SCHEMA,
        **dataclasses.asdict(training),
        "engine": {"name": engine_name, **dataclasses.asdict(engine)},
        **({"task": {"name": task_name, **_knobs(task, derived)}} if plays_tasks else {}),
        "curriculum": {
            "name": name,
            **({"preset": preset} if preset else {}),
            **_knobs(curriculum, shared),
        },
    }
    with tolerating_missing_data(dry, notices):
        player = _tested(player, engine_name, training.benchmarks, notices)
    resolved = json.loads(json.dumps(resolved))
    own = getattr(ENGINES[engine_name].settings, "MAY_CHANGE", ())
    may_change = (*Training.MAY_CHANGE, *(f"engine.{key}" for key in own))
    return Config(
        *(training, engine_name, engine, player, name, curriculum, resolved),
        may_change,
        tuple(notices),
    )


def _tested(task: Any, engine: str, benchmarks: Sequence[str], notices: list[str]) -> Any:
    """The task, tested on benchmarks if any are named; None where a dry run could not build it."""
    if not benchmarks:
        return task
    remedy = f"the {engine} engine brings its own test; leave it out"
    require(ENGINES[engine].plays_tasks, "benchmarks", list(benchmarks), remedy)
    if task is None:
        return None
    tested = Validated(task, benchmarks)
    notices += tested.notices
    return tested


def curriculum_of(section: Any, batch: int, group: int) -> Curriculum:
    """The curriculum of a section, for a trainer that has its other settings elsewhere."""
    raw = {"engine": "simulated", "batch": batch, "group": group, "curriculum": section}
    return resolve(raw).curriculum


def task_of(settings: Mapping[str, Any]) -> Task:
    """The task of a run, by its settings, whatever else they say."""
    kept = {key: settings[key] for key in _OF_TASK if key in settings}
    task: Task = resolve({**kept, "engine": "local", "curriculum": "uniform"}).task
    return task


def revised(document: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Settings of a run with others of its task, as key=value."""
    raw: dict[str, Any] = json.loads(json.dumps(document))
    for key, value in sorted(map(_split, overrides), key=lambda setting: _rank(setting[0])):
        require(key.split(".")[0] == "task", key, value, "only the task's can be set here")
        _apply(raw, key, value)
    return raw


def task_settings(section: Any) -> Any:
    """The settings of a task, no file read; None of one that is not in TASKS."""
    name, given = _section(section, "task", TASKS)
    if name not in TASKS:
        return None
    kind = TASKS[name].settings
    known, mappings = list(keys.dotted(kind, "task.")), keys.of_mappings(kind, "task.")
    keys.require_known({"task": given}, known, {"task": name}, mappings)
    return _check(kind, given, "task.")


_OF_TASK = ("task", "seed", "data_seed", "benchmarks")
"""Settings that a run's prompts and rewards depend on."""
_NAMED = ("engine", "task", "curriculum")
"""Sections that may be written as just a name."""


def _read_recipe(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return identity.settings(json.loads(text))
        return tomllib.loads(text)
    except OSError as error:
        hint = "; settings are key=value, such as curriculum=metis" if not path.suffix else ""
        raise MetisError(f"recipe {str(path)!r}: {error.strerror or error}{hint}") from None
    except (ValueError, RecursionError, AttributeError) as error:
        raise MetisError(f"recipe {str(path)!r} cannot be read: {error}") from None


def _split(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise MetisError(f"{override!r} is not a setting: write key=value, such as steps=100")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return key, text
    return key, parsed["value"] if len(parsed) == 1 else text


def _apply(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key. `curriculum=NAME` drops the settings of a curriculum named before, all but
    a preset that the new one has too; another preset drops the recipe's own; task drops them all;
    of an engine those stay that the new one has too."""
    *parents, last = key.split(".")
    if not parents and last in _NAMED and isinstance(value, str):
        old = raw.get(last, {})
        old = old if isinstance(old, dict) else {"name": old}
        same = old.get("name", value) == value
        if not same and last == "engine" and value in ENGINES:
            shared = set(keys.dotted(ENGINES[value].settings, ""))
            old, same = {name: old[name] for name in old if name in shared}, True
        if not same and last == "curriculum" and str(old.get("preset")) in PRESETS.get(value, {}):
            old, same = {"preset": old["preset"]}, True
        raw[last] = {**(old if same else {}), "name": value}
        return
    if key == "curriculum.preset" and value != _preset_of(raw):
        old = raw.get("curriculum", {})
        if isinstance(old, dict):
            raw["curriculum"] = {"name": old["name"]} if "name" in old else {}
    table = raw
    for parent in parents:
        child = table.get(parent, {})
        if isinstance(child, str) and parent in _NAMED:
            child = {"name": child}
        if not isinstance(child, dict):
            raise MetisError(f"{key} = {value!r}: {parent!r} is {child!r}, not a section")
        table[parent] = child
        table = child
    table[last] = value


def _section(raw: Any, key: str, known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a section that may be written as just its name."""
    table = {"name": raw} if isinstance(raw, str) else raw
    if not isinstance(table, dict):
        raise MetisError(f"{key} = {raw!r}: give a name, one of {', '.join(known)}")
    table = dict(table)
    name = table.pop("name", next(iter(known)))
    own = key != "engine" and is_named(str(name))
    if not isinstance(name, str) or (name not in known and not own):
        hint = f" (your own is {FORMS})" if key != "engine" else ""
        raise MetisError(f"{key} = {name!r}: {keys.suggestion(str(name), list(known))}{hint}")
    return name, table


def _preset(name: str, preset: Any) -> dict[str, Any]:
    presets = PRESETS.get(name, {"": {}})
    if not isinstance(preset, str) or preset not in presets:
        named = ", ".join(filter(None, presets))
        remedy = f"use one of {named}" if named else f"{name} has no presets; leave it out"
        raise MetisError(f"curriculum.preset = {preset!r}: {remedy}")
    return presets[preset]


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def _check(kind: type[Any], raw: Mapping[str, Any], prefix: str) -> Any:
    try:
        text = json.dumps(listed(kind, raw), default=str)
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(str(part) for part in first["loc"])
        key = key.removeprefix("curriculum.") if key in keys.SHARED else key
        message = first["msg"].replace("Input should be", "must be")
        if first["type"] in ("list_type", "tuple_type"):
            message = f"must be a list, such as '{key}=[{json.dumps(first['input'])}]'"
        raise MetisError(f"{key} = {first['input']!r}: {message}") from None


def _knobs(of: Any, derived: Collection[str]) -> dict[str, Any]:
    """The knobs of a section but those that follow from settings elsewhere."""
    values = dataclasses.asdict(of)
    knobs = (knob.name for knob in dataclasses.fields(of) if knob.init)
    return {name: values[name] for name in knobs if name not in derived}
