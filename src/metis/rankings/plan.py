"""What a ranking ranks: the file of prompts, a sample for calibration, and the settings."""

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis import config
from metis.config import Config, recipe
from metis.config.config import EngineSection
from metis.config.recipe import Setting
from metis.curricula.judges import Readout
from metis.data.fetched import sha256
from metis.data.table import field
from metis.errors import MetisError, require
from metis.rankings.prompts import PromptFile, Scan, write_rows
from metis.selector.rows import TEXTS
from metis.settings.sections import TaskSection
from metis.tasks.file import read_rows


@dataclass(frozen=True)
class RankingPlan:
    """The file, its sample for the calibration, and settings whose task is that sample."""

    file: PromptFile
    scan: Scan
    config: Config
    described: dict[str, Any]
    """All that the ranking depends on: the content of `config.json`."""


def plan(model: str, path: Path, words: Sequence[str], calibrate: int) -> RankingPlan:
    """Read the settings and the file; a sample of its prompts becomes the task."""
    recipe_path, overrides = config.parse_arguments(words)
    settings = [recipe.split_override(word) for word in overrides]
    if recipe_path is None and not {"task", "task.name"} & {key for key, _ in settings}:
        settings.insert(0, ("task", "file"))
    settings += [("engine.model", model), ("benchmarks", [])]
    raw = recipe.read_recipe(recipe_path) if recipe_path else recipe.default_recipe(settings)
    recipe.override(raw, settings)
    engine = EngineSection.read(raw.get("engine", "local")).name
    require(engine == "local", "engine", engine, "rank with engine=local, or with --server URL")
    section = TaskSection.read(raw.get("task", "arithmetic"))
    settings += _of_file(section, path)
    file = _file(section, dict(settings), path)
    scan = file.scan(calibrate, raw.get("seed", 0))
    if len(scan.sample) < 2:
        raise MetisError(f"{str(path)!r} has {scan.prompts} prompts: rank at least 2")
    made = _sampled(recipe_path, settings, path, scan)
    task = {**made.resolved["task"], "path": str(path)}
    prompts = {"sha256": sha256(path), "count": scan.prompts}
    described = {**made.resolved, "task": task, "prompts": prompts, "calibrate": calibrate}
    return RankingPlan(file, scan, made, described)


def readout(settings: Config, served: bool) -> Readout:
    """The readout that is set, or the default one; a served model has the last layer only."""
    own = getattr(settings.curriculum, "judge", None)
    if not isinstance(own, Readout):
        return Readout(layer=1.0) if served else Readout()
    remedy = "a pooling server has the last layer only: use 1"
    require(not served or own.layer == 1, "curriculum.judge.layer", own.layer, remedy)
    return dataclasses.replace(own)


def _of_file(section: TaskSection, path: Path) -> list[Setting]:
    """The settings of the task: all prompts come from the file, none is held out."""
    if section.entry.rows is None:
        raise MetisError(
            f"task = {section.name!r} does not read prompts row by row: use task=file (with "
            "task.reward=FILE.py:FUNCTION for your own reward) or task=math"
        )
    known = {each.name for each in dataclasses.fields(section.entry.settings)}
    fixed = {"task.heldout": None, "task.heldout_path": "", "task.path": str(path)}
    settings: list[Setting] = [
        (key, value) for key, value in fixed.items() if key.removeprefix("task.") in known
    ]
    if "problem" not in section.given:
        settings += _problem(path)
    return settings


def _problem(path: Path) -> list[Setting]:
    """The field with the problem, guessed from the first row; empty if no known one is there."""
    first = next(iter(read_rows(str(path), "PROMPTS")))
    name = next((name for name in TEXTS if name in first), None)
    if name is None or "reward_model" in first:  # a row with verl's columns is read as it is
        return []
    if isinstance(first[name], str):
        return [("task.problem", name)]
    whole = isinstance(first[name], list) and len(first[name]) == 1
    content = f"{name}.0.content"
    if not whole or not isinstance(field(first, content), str):
        raise MetisError(
            f"PROMPTS = {str(path)!r}: {name!r} of its first row is no text and no chat of one "
            "message: name a field with the text, such as task.problem=question"
        )
    return [("task.problem", content)]


def _file(section: TaskSection, settings: dict[str, Any], path: Path) -> PromptFile:
    given = {
        key.removeprefix("task."): value
        for key, value in settings.items()
        if key.startswith("task.") and key != "task.name"
    }
    section = dataclasses.replace(section, given={**section.given, **given})
    assert section.entry.rows is not None
    section.require_known()
    return PromptFile(path, section.entry.rows(section.resolve(0)))


def _sampled(
    recipe_path: Path | None, settings: Sequence[Setting], path: Path, scan: Scan
) -> Config:
    """The whole configuration, whose task has the sampled rows alone."""
    with tempfile.TemporaryDirectory() as place:
        sample = Path(place) / f"{path.name.split('.')[0]}.jsonl"
        write_rows(sample, scan.sample)
        return config.assemble(recipe_path, [*settings, ("task.path", str(sample))])
