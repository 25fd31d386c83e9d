"""Configuration: a recipe and key=value settings in, one validated `Config` out."""

from metis.config.config import Config, assemble, load_config, resolve
from metis.config.recipe import parse_arguments, revised

__all__ = ["Config", "assemble", "load_config", "parse_arguments", "resolve", "revised"]
