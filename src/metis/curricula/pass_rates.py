"""Pass rates that were found before a run: those of a survey, or of a ranked file of prompts."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from metis.errors import MetisError

KEY = "curriculum.rates"
RATES = ("measured_pass_rate", "expected_pass_rate")
"""What `metis judge` writes of a prompt, the better one first."""


def read_rates(path: str) -> dict[str, float]:
    """The mean reward of each prompt in a file, by id; prompts without one are left out."""
    place = Path(path).expanduser()
    rates: dict[str, float] = {}
    try:
        for row in _rows(place):
            name, rate = _rate(row)
            if rate is not None:
                if not 0 <= rate <= 1:
                    raise ValueError(f"prompt {name!r} has the pass rate {rate}")
                rates[name] = rate
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as error:
        raise MetisError(
            f"{KEY} = {path!r}: cannot be read ({type(error).__name__}: {error}); name the "
            "outcomes.jsonl of `metis survey`, what its --keep writes, or the ranking.jsonl of "
            "`metis judge`"
        ) from None
    if not rates:
        raise MetisError(f"{KEY} = {path!r}: it has no pass rate of any prompt")
    return rates


def _rows(place: Path) -> Iterator[Any]:
    """The rows of a file; an outcome set, which has a heading, is compressed."""
    packed = place.suffix == ".gz"
    with (
        gzip.open(place, "rt", encoding="utf-8") if packed else place.open(encoding="utf-8") as file
    ):
        for line in file:
            row = json.loads(line)
            if not (isinstance(row, dict) and "format" in row):
                yield row


def _rate(row: Any) -> tuple[str, float | None]:
    """The id and the mean reward of a row."""
    if isinstance(row, dict) and "id" in row:
        known = (row.get(name) for name in RATES)
        return str(row["id"]), next((float(rate) for rate in known if rate is not None), None)
    name, rewards = (row["prompt"], row["rewards"]) if isinstance(row, dict) else row[:2]
    return str(name), float(np.mean(rewards)) if rewards else None
