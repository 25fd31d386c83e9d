"""A dry run: every setting with its value and origin, as TOML, and what a step will cost."""

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from rich.console import Console
from rich.text import Text

from metis.config import Config
from metis.config.generation import AUTO, choice, is_open, step_size
from metis.config.origins import COMMAND_LINE, DEFAULT
from metis.core import Embed
from metis.core.needs import needs_of
from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card
from metis.curricula.registry import candidates
from metis.engines import model_files
from metis.engines.local.estimate import step as of_step
from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import Device, Seconds, StepMemory
from metis.engines.local.settings import LocalSettings
from metis.report.tables import duration
from metis.tasks.base import takes_turns

WIDEST = 44
"""Columns of a setting, after which its origin is no longer aligned."""

STYLES = {DEFAULT: "dim", COMMAND_LINE: "bold cyan"}
"""Colours of origins; the others have one of their own."""


def show(config: Config, console: Console) -> None:
    """Print the settings, which make a recipe, and the estimate as its comments."""
    settings = {key: value for key, value in config.resolved.items() if key != "schema"}
    rows = list(_rows(settings, config.origins))
    width = max(len(row) for row, _ in rows if len(row) <= WIDEST)
    for row, origin in rows:
        if origin is None:
            console.print(Text(row, "bold"))
        else:
            comment = Text(f"# {origin}", STYLES.get(origin, "green"))
            console.print(Text.assemble(f"{row:<{width}}  ", comment))
    console.print()
    for line in chain(estimate(config), step_costs(config)):
        console.print(Text(f"# {line}"))


def _rows(
    section: Mapping[str, Any], origins: Mapping[str, str], path: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Lines of TOML with their origins; headings have none. Own keys come before sections."""
    inner = {key: value for key, value in section.items() if isinstance(value, dict) and value}
    for key, value in section.items():
        if key not in inner:
            line = f"{_key(key)} = {_toml(value)}" if value is not None else f"# {key} is not set"
            yield line, origins[path + key]
    for key, value in inner.items():
        yield "", None
        yield f"[{path}{_key(key)}]", None
        yield from _rows(value, origins, f"{path}{key}.")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml(v)}' for k, v in value.items())}}}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def estimate(config: Config) -> Iterator[str]:
    """Rollouts, tokens and judgments, as far as the settings tell."""
    training = config.training
    rollouts, longest = training.batch * training.group, _longest(config)
    line = f"a step:     {training.batch:,} prompts x {training.group:,} = {rollouts:,} rollouts"
    yield f"{line} to train on{_tokens(rollouts, longest)}"
    yield from _beside(config)
    steps = training.steps
    total = steps * rollouts
    line = f"{steps:,} steps, {total:,} rollouts to train on{_tokens(total, longest)}"
    limits = {"tokens": "generated tokens", "processed": "total tokens", "seconds": "seconds"}
    ends = [f"{n:,} {what}" for key, what in limits.items() if (n := getattr(training, key))]
    until = f"until {' or '.join(ends)} are spent" if ends else ""
    yield f"the run:    {'; at most '.join(filter(None, [until, line if steps else '']))}"
    if config.task is not None:
        answers, times = len(config.task.heldout()), _validations(steps, training.evaluate)
        yield f"validation: {answers:,} answers{_tokens(answers, longest)}, {times}"


def _longest(config: Config) -> int:
    """Tokens of an answer, at most; 0 where the settings do not bound the whole of it."""
    if config.task is not None and takes_turns(config.task):
        return getattr(config.engine, "episode_tokens", 0)
    return getattr(config.engine, "max_tokens", 0)


def _tokens(answers: int, longest: int) -> str:
    return f", at most {answers * longest:,} generated tokens" if longest else ""


def _beside(config: Config) -> Iterator[str]:
    """Cost of the curriculum and of its filter in a step beside these rollouts."""
    curriculum: Any = config.curriculum
    sieve = config.resolved["curriculum"].get("filter")
    batch = math.ceil(sieve["multiplier"] * curriculum.batch) if sieve else curriculum.batch
    if hasattr(curriculum, "judge"):
        pool, needs = config.pool(), needs_of(curriculum)
        drawn = candidates(curriculum, batch)
        drawn = drawn if pool is None else min(drawn, len(pool))
        again = f" and up to {needs.replay:,} earlier outcomes" if needs.replay else ""
        written = _tokens(drawn, needs.sampling.max_tokens if needs.sampling else 0)
        done = [f"{drawn:,} candidates{again} judged"] if needs.judges else []
        done += [f"{drawn:,} candidates read"] if Embed in needs.requests else []
        done = done or [f"{drawn:,} candidates predicted"]
        yield f"  beside:   {', '.join(done)}{written or ', none generated'}"
    elif kind := CURRICULA.get(config.curriculum_name):
        yield f"  beside:   {curriculum_card(kind).costs}"
    if sieve:
        most, rollouts = sieve["rounds"], batch * curriculum.group
        also = "; in each, what is beside" if most > 1 else ""
        yield f"  filter:   {most:,} round{'s' * (most > 1)} of {rollouts:,} rollouts at most{also}"


def _validations(steps: int, every: int) -> str:
    if not steps:
        return f"before, every {every} steps, and after" if every else "before and after"
    between = len({*range(every, steps, every)}) if every else 0
    return f"{between + 2} times"


TURNS = "memory:     not estimated, nor seconds: episodes of several turns have no one length"


def step_costs(config: Config) -> Iterator[str]:
    """Lines on what generates, and on the memory and seconds of a step, where its model is here."""
    settings = config.engine
    if not isinstance(settings, LocalSettings):
        return
    turns = config.task is not None and takes_turns(config.task)
    folder = model_files.on_disk(settings.model)
    shape = ModelShape.of(folder) if folder else None
    size = step_size(config)
    if shape is None or size is None:
        what = "its data are" if shape else "the model is"
        yield TURNS if turns else f"memory:     not estimated until {what} on this machine"
        return
    try:
        from metis.engines.local.estimate.speed import measured
    except ImportError:
        return
    device = measured(settings.device, shape, min(settings.rows, size.rollouts))
    if is_open(config):
        made = choice(config, shape, size, device)
        settings = dataclasses.replace(settings, generation=made.generation)
        yield f"generation: {made}"
    elif config.resolved["engine"]["generation"] == AUTO:
        yield f"generation: {settings.generation}, as the run began"
    if turns:
        yield TURNS
        return
    yield _memory(of_step.memory(shape, settings, size, device), device)
    yield _seconds(of_step.seconds(shape, settings, size, device), config)


def _memory(memory: StepMemory, device: Device) -> str:
    parts = {
        "weights and optimizer": memory.weights + memory.training,
        "generation": memory.generation,
        "the update": memory.update,
    }
    shown = ", ".join(f"{_gigabytes(size)} {name}" for name, size in parts.items() if size)
    where = f" of this GPU's {_gigabytes(device.memory)}" if device.gpu else ""
    line = f"memory:     about {_gigabytes(memory.peak)} GB{where} at most ({shown})"
    if device.gpu and memory.peak > device.memory:
        line += ": more than there is, so lower engine.tokens or set engine.checkpointing=true"
    return line


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f}" if size < 10e9 else f"{size / 1e9:.0f}"


def _few(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:,.0f}"


def _seconds(seconds: Seconds, config: Config) -> str:
    judging = "judging" if needs_of(config.curriculum).judges else "reading candidates"
    phases = {"generation": seconds.rollout, judging: seconds.judge, "update": seconds.update}
    shown = ", ".join(f"{_few(value)} {name}" for name, value in phases.items() if value)
    steps: Any = config.training.steps
    whole = f", {duration(steps * seconds.step)} for {steps:,} steps" if steps else ""
    return (
        f"seconds:    about {_few(seconds.step)} a step ({shown}){whole}, with answers of "
        f"{of_step.LENGTH:.0%} of their longest length and {of_step.TRAINED:.0%} of the groups "
        "mixed; without loading and validation"
    )
