"""Errors that a user can fix: one line that says what is wrong, where, and what to do."""

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
        "tasks/verifiers",
    )
)
"""Files of METIS that call user code; their frames are skipped when an error is located."""
LONGEST = 300
"""Characters of an error message that are shown."""
NON_FINITE_LIMIT = 3
"""Consecutive non-finite updates after which a run stops."""


class MetisError(Exception):
    """Shown by the command line as one line, without a traceback, with exit code 2."""


class Damaged(MetisError):
    """A corrupted file of a run; `what` names the file in its folder, and the line."""

    def __init__(self, message: str, folder: Path, what: str) -> None:
        super().__init__(message)
        self.folder, self.what = folder, what


class MissingData(MetisError):
    """A setting names data that does not exist, or was not prepared yet."""


@contextmanager
def tolerating_missing_data(tolerated: bool, missing: list[str]) -> Iterator[None]:
    """Where tolerated, note missing data and leave the block."""
    try:
        yield
    except MissingData as error:
        if not tolerated:
            raise
        missing.append(str(error))


class BadReward(Exception):
    """A reward function returned an invalid value; `fault` says what kind."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault

    @classmethod
    def of(cls, scorer: str, value: object, fault: str) -> "BadReward":
        shown = textwrap.shorten(repr(value), 100, placeholder=" ...")
        return cls(f"{scorer} returned {shown}, {fault}", fault)


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type where it has none.

    The whole message where the first line ends in a colon.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines) if lines[0].endswith(":") else lines[0]


def located(error: BaseException) -> str:
    """Type and message of an error, with the file, line and function that raised it."""
    message = textwrap.shorten(str(error), LONGEST, placeholder=" ...")
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    where = place(error)
    return f"{text} ({where[0]}, line {where[1]}, in {where[2]})" if where else text


def place(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame of user code, else of library code.

    None where the message already says it, or there is no such frame.
    """
    if isinstance(error, SyntaxError | BadReward):
        return None
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    lines = [(code.co_filename, line, code.co_name) for code, line in frames]
    theirs = [line for line in lines if not line[0].startswith((*MACHINERY, "<"))]
    own = [line for line in theirs if not line[0].startswith(LIBRARIES)]
    return (own or theirs)[-1] if theirs else None


def pip_install(extra: str) -> str:
    """The pip command for an extra: from the checkout, as METIS is not on PyPI yet."""
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
    """Refuse settings whose named fields are below their minimum."""
    for name, bound in least.items():
        value = getattr(settings, name)
        require(value >= bound, f"{prefix}{name}", value, f"use at least {bound}")


def require_folder(path: Path) -> None:
    """Refuse an --out that is a file, or would lie in one."""
    place = next(part for part in (path, *path.parents, Path()) if part.exists())
    if not place.is_dir():
        inside = "" if place == path else f" lies in {str(place)!r}, which"
        raise MetisError(f"--out {str(path)!r}{inside} is a file: name a folder")
