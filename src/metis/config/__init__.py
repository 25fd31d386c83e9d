"""Configuration: a recipe and key=value settings in, one validated `Config` out."""

from metis.config.config import Config, assemble, load_config, resolve
from metis.config.recipe import parse_arguments, revised
from metis.config.sections import curriculum_of, task_of, task_settings
from metis.config.training import Checkpoints, RunSettings

__all__ = [
    "Checkpoints",
    "Config",
    "RunSettings",
    "assemble",
    "curriculum_of",
    "load_config",
    "parse_arguments",
    "resolve",
    "revised",
    "task_of",
    "task_settings",
]
