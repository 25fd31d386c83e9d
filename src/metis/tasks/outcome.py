"""What a reward function returned: a score in [0, 1], and values to log."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

from metis.core.values import ROUNDING, Report
from metis.errors import BadReward, MetisError
from metis.tasks.base import Episode

SCORE = "score"
LONGEST = 200
"""Characters of a reported text that are kept."""


@dataclass(frozen=True)
class Scoring:
    """The score of an episode, the values reported with it, and the name of its scorer."""

    score: float
    report: Report
    scorer: str

    def require_range(self) -> None:
        """End the run on a score of another scale, which would bias whatever it trains."""
        if not -ROUNDING <= self.score <= 1 + ROUNDING:
            raise MetisError(
                f"{self.scorer} returned {self.score:g}: rewards must be in [0, 1]; rescale it, "
                "and the same command goes on from the last checkpoint"
            )


def scorer(episode: Episode) -> str:
    """The name of an episode's scorer, for messages."""
    named: str = getattr(episode, "scorer", f"{type(episode).__qualname__}.reward")
    return named


def read(value: Any, by: str) -> Scoring:
    """Read a reward: a number, or a mapping with a `score`."""
    if not isinstance(value, Mapping):
        return Scoring(_score(value, by), {}, by)
    if SCORE not in value:
        raise BadReward.of(by, dict(value), f"a mapping without {SCORE!r}")
    rest = {str(key): item for key, item in value.items() if key != SCORE}
    return Scoring(_score(value[SCORE], by), reported(rest), by)


def reported(values: Mapping[str, Any]) -> Report:
    """The finite numbers and the texts of a mapping; nothing else can be logged."""
    report: dict[str, float | str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            report[name] = textwrap.shorten(value, LONGEST, placeholder=" ...")
        elif (number := _number(value)) is not None and math.isfinite(number):
            report[name] = number
    return report


def _score(value: Any, by: str) -> float:
    number = _number(value)
    if number is None:
        raise BadReward.of(by, value, f"not a number or a mapping with {SCORE!r}")
    if not math.isfinite(number):
        raise BadReward.of(by, value, "not a finite number")
    return number


def _number(value: Any) -> float | None:
    """A number of any library; None where it is none."""
    if not isinstance(value, SupportsFloat):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
