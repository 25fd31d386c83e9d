"""Errors a user can mend: one line that says what is wrong, where, and what to do."""

import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
MACHINERY = tuple(
    str(Path(__file__).parent / name)
    for name in (
        "engines",
        "core/importing.py",
        "tasks/own.py",
        "tasks/rewards.py",
        "tasks/base.py",
    )
)
"""Files that call a user's code; no error of that code arises there."""
LONGEST = 300
"""Characters of an error's message that are shown."""
NON_FINITE_LIMIT = 3
"""Updates in a row that may come to nothing before a run is stopped."""


class MetisError(Exception):
    """Shown by the command line as one line, without a traceback, with exit code 2."""


class Damaged(MetisError):
    """A file of a run is not as it was written; `what` names it in its folder, and its line."""

    def __init__(self, message: str, folder: Path, what: str) -> None:
        super().__init__(message)
        self.folder, self.what = folder, what


class MissingData(MetisError):
    """A setting names data that is not there, or not there yet."""


@contextmanager
def tolerating_missing_data(tolerated: bool, missing: list[str]) -> Iterator[None]:
    """End the block at missing data and note it, where that is tolerated."""
    try:
        yield
    except MissingData as error:
        if not tolerated:
            raise
        missing.append(str(error))


class BadReward(Exception):
    """A reward function returned what is no reward; `fault` is the kind of that."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault

    @classmethod
    def of(cls, scorer: str, value: object, fault: str) -> "BadReward":
        shown = textwrap.shorten(repr(value), 100, placeholder=" ...")
        return cls(f"{scorer} returned {shown}, {fault}", fault)


def first_line(error: Exception) -> str:
    """The message of another library's error, as part of a line; its name where it has none.

    All of it where the first line only announces the rest.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines) if lines[0].endswith(":") else lines[0]


def located(error: BaseException) -> str:
    """Type and message of an error, with the file, line and function where it arose."""
    message = textwrap.shorten(str(error), LONGEST, placeholder=" ...")
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    where = place(error)
    return f"{text} ({where[0]}, line {where[1]}, in {where[2]})" if where else text


def place(error: BaseException) -> tuple[str, int, str] | None:
    """The innermost line of a user's code, or of a library where no line of theirs is known.

    None where the message has it, or there is none.
    """
    if isinstance(error, SyntaxError | BadReward):
        return None
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    lines = [(code.co_filename, line, code.co_name) for code, line in frames]
    theirs = [line for line in lines if not line[0].startswith((*MACHINERY, "<"))]
    own = [line for line in theirs if not line[0].startswith(LIBRARIES)]
    return (own or theirs)[-1] if theirs else None


def install(extra: str) -> str:
    """The command that installs an extra: from the checkout, since no index has METIS yet."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]' in a checkout of METIS"
    place = "." if Path.cwd() == checkout else checkout
    return f"pip install -e '{place}[{extra}]'"


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
