"""Finds files of an earlier, equal preparation; any other file is never overwritten."""

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
    """The request and the outcome noted in a prepared file."""
    try:
        about = parquet.about(path)
    except MetisError:
        about = None
    if about is None:
        raise not_prepared(path)
    return about


def not_prepared(path: Path) -> MetisError:
    """The error for a file at the target that METIS did not prepare."""
    return MetisError(
        f"{str(path)!r} is not a file that was prepared here: move it, or choose another --out"
    )
