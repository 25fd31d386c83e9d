"""METIS: a language model judges which prompts it will learn most from, and learns to judge."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metis.core import Batch, Group, Pool, Progress, Prompt
    from metis.core.drive import drive
    from metis.errors import MetisError
    from metis.library import TrainedRun, curriculum, train
    from metis.selector import AsyncSelector, Selector

__version__ = "0.1.0"

__all__ = [
    "AsyncSelector",
    "Batch",
    "Group",
    "MetisError",
    "Pool",
    "Progress",
    "Prompt",
    "Selector",
    "TrainedRun",
    "__version__",
    "curriculum",
    "drive",
    "train",
]

_HOMES = {
    "metis.core": ("Batch", "Group", "Pool", "Progress", "Prompt"),
    "metis.core.drive": ("drive",),
    "metis.errors": ("MetisError",),
    "metis.library": ("TrainedRun", "curriculum", "train"),
    "metis.selector": ("AsyncSelector", "Selector"),
}
"""Modules of the public names; each is imported when a name of it is first used."""


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(module), name)
            return value
    raise AttributeError(f"module 'metis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
