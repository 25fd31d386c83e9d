"""Errors a user can mend: one line that says what is wrong, where, and what to do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NON_FINITE_LIMIT = 3
"""Updates in a row that may come to nothing before a run is stopped."""


class MetisError(Exception):
    """Shown by the command line as one line, without a traceback, with exit code 2."""


class MissingData(MetisError):
    """A setting names data that is not there, or not there yet."""


@contextmanager
def tolerating_missing_data(tolerated: bool, notices: list[str]) -> Iterator[None]:
    """Where it is tolerated, data that is not there ends the block with a notice."""
    try:
        yield
    except MissingData as error:
        if not tolerated:
            raise
        notices.append(f"without its data, for now: {error}")


def first_line(error: Exception) -> str:
    """What another library says of its error, as part of a line; its name where it says nothing.

    All of it where the first line only announces the rest.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines) if lines[0].endswith(":") else lines[0]


def require(holds: bool, key: str, value: object, remedy: str) -> None:
    """Refuse a bad setting, naming the key, the value and the remedy."""
    if not holds:
        raise MetisError(f"{key} = {value!r}: {remedy}")


def require_at_least(settings: object, least: Mapping[str, int], prefix: str = "") -> None:
    """Refuse settings whose named fields are below their least values."""
    for name, bound in least.items():
        value = getattr(settings, name)
        require(value >= bound, f"{prefix}{name}", value, f"use at least {bound}")


def require_folder(path: Path) -> None:
    """Refuse an --out that is a file, or would lie in one."""
    place = next(part for part in (path, *path.parents, Path()) if part.exists())
    if not place.is_dir():
        inside = "" if place == path else f" lies in {str(place)!r}, which"
        raise MetisError(f"--out {str(path)!r}{inside} is a file: name a folder")
