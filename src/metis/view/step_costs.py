"""Memory and seconds of a step, in words; part of a dry run."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from metis.config import Config
from metis.config.generation import AUTO, choice, is_open, step_size
from metis.core.needs import needs_of
from metis.engines import model_files
from metis.engines.local.estimate import step as estimate
from metis.engines.local.estimate.shape import ModelShape
from metis.engines.local.estimate.step import Device, Seconds, StepMemory, StepSize
from metis.engines.local.settings import LocalSettings
from metis.engines.verl import estimate as on_verl
from metis.engines.verl.settings import VerlSettings
from metis.report.tables import duration
from metis.tasks.base import takes_turns

TURNS = "memory:     not estimated, nor seconds: episodes of several turns have no one length"


def step_costs(config: Config) -> Iterator[str]:
    """Lines on what generates, and on the memory and seconds of a step, where its model is here."""
    settings = config.engine
    if not isinstance(settings, LocalSettings | VerlSettings):
        return
    turns = config.task is not None and takes_turns(config.task)
    folder = model_files.on_disk(settings.model)
    shape = ModelShape.of(folder) if folder else None
    size = step_size(config)
    if shape is None or size is None:
        what = "its data are" if shape else "the model is"
        yield TURNS if turns else f"memory:     not estimated until {what} on this machine"
        return
    if isinstance(settings, VerlSettings):
        yield from [TURNS] if turns else _on_verl(config, settings, shape, size)
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
    yield _memory(estimate.memory(shape, settings, size, device), device)
    mixed = f" and {estimate.TRAINED:.0%} of the groups mixed; without loading and validation"
    yield _seconds(estimate.seconds(shape, settings, size, device), config) + mixed


def _on_verl(
    config: Config, settings: VerlSettings, shape: ModelShape, size: StepSize
) -> Iterator[str]:
    """On H200s, whatever this machine has."""
    size = on_verl.divided(size, needs_of(config.curriculum).choices)
    count = on_verl.gpus(settings)
    memory = on_verl.memory(shape, settings, size)
    line = (
        f"memory:     about {_gigabytes(memory.peak)} GB of the {_gigabytes(on_verl.MEMORY)} of "
        f"{f'each of {count:,} H200s' if count > 1 else 'an H200'} at most "
        f"({_gigabytes(memory.states)} weights and optimizer, {_gigabytes(memory.update)} the "
        f"update, {_gigabytes(memory.generation)} vLLM, which sleeps meanwhile)"
    )
    if memory.peak > on_verl.MEMORY:
        line += ": more than there is, so use more GPUs, engine.lora, or fewer engine.tokens"
    yield line
    yield (
        f"{_seconds(on_verl.seconds(shape, settings, size), config)}; computed, not measured: "
        "docs/scale.md has the errors"
    )


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
        f"{estimate.LENGTH:.0%} of their longest length"
    )
