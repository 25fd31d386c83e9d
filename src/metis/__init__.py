"""METIS: a language model judges which prompts it will learn most from, and learns to judge."""

from metis.core import Batch, Group, Progress, Prompt
from metis.driver import adrive, drive
from metis.errors import MetisError
from metis.pool import Pool

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Group",
    "MetisError",
    "Pool",
    "Progress",
    "Prompt",
    "__version__",
    "adrive",
    "drive",
]
