"""METIS: a language model judges which prompts it will learn most from, and learns to judge."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metis.core import Batch, Group, Pool, Progress, Prompt
    from metis.core.drive import drive
    from metis.errors import MetisError
    from metis.library.comparing import compare
    from metis.library.evaluating import evaluate
    from metis.library.judging import judge
    from metis.library.opening import load
    from metis.library.results import (
        ComparisonResult,
        EvaluationResult,
        RankingResult,
        SurveyResult,
    )
    from metis.library.run import TrainedRun
    from metis.library.surveying import survey
    from metis.library.training import curriculum, train
    from metis.selector import AsyncSelector, Selector

__version__ = "0.2.0"

__all__ = [
    "AsyncSelector",
    "Batch",
    "ComparisonResult",
    "EvaluationResult",
    "Group",
    "MetisError",
    "Pool",
    "Progress",
    "Prompt",
    "RankingResult",
    "Selector",
    "SurveyResult",
    "TrainedRun",
    "__version__",
    "compare",
    "curriculum",
    "drive",
    "evaluate",
    "judge",
    "load",
    "survey",
    "train",
]

_HOMES = {
    "metis.core": ("Batch", "Group", "Pool", "Progress", "Prompt"),
    "metis.core.drive": ("drive",),
    "metis.errors": ("MetisError",),
    "metis.library.comparing": ("compare",),
    "metis.library.evaluating": ("evaluate",),
    "metis.library.judging": ("judge",),
    "metis.library.opening": ("load",),
    "metis.library.results": (
        "ComparisonResult",
        "EvaluationResult",
        "RankingResult",
        "SurveyResult",
    ),
    "metis.library.run": ("TrainedRun",),
    "metis.library.surveying": ("survey",),
    "metis.library.training": ("curriculum", "train"),
    "metis.selector": ("AsyncSelector", "Selector"),
}
"""Modules of the public names; each is imported when a name of it is first used."""


if not TYPE_CHECKING:  # a type checker would take any name for one of the package

    def __getattr__(name: str) -> Any:
        for module, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(importlib.import_module(module), name)
                return value
        raise AttributeError(f"module 'metis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
