"""Files that were prepared before, found again by what was asked for; no other is overwritten."""

from pathlib import Path
from typing import Any

from metis.data import parquet
from metis.errors import MetisError


def before(path: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """The outcome of an earlier, equal preparation; None where there is none."""
    if not path.exists():
        return None
    about = request_and_outcome(path)
    outcome: dict[str, Any] = about["outcome"]
    return outcome if about["request"] == request else None


def request_and_outcome(path: Path) -> dict[str, Any]:
    """The notes of a prepared file: what was asked for, and what came of it."""
    try:
        about = parquet.about(path)
    except MetisError:
        about = None
    if about is None:
        raise not_prepared(path)
    return about


def not_prepared(path: Path) -> MetisError:
    """The error of a file from elsewhere where one would be written."""
    return MetisError(
        f"{str(path)!r} is not a file that was prepared here: move it, or choose another --out"
    )
