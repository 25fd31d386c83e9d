"""Configuration: a recipe and key=value settings in, one checked and complete run out."""

from metis.config.config import Config, assemble, load, resolve
from metis.config.recipe import parse, revised
from metis.config.sections import curriculum_of, task_of, task_settings
from metis.config.training import Checkpoints, Training

__all__ = [
    "Checkpoints",
    "Config",
    "Training",
    "assemble",
    "curriculum_of",
    "load",
    "parse",
    "resolve",
    "revised",
    "task_of",
    "task_settings",
]
