"""The source of a data set: a file of one's own, or a data set of the Hugging Face hub.

On the hub a source is an id, a revision and files, written `ORG/NAME@REVISION:FILE,FILE`. A
source that cannot be reached is never replaced by another.
"""

import contextlib
import hashlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metis.data.table import SUFFIXES
from metis.errors import MetisError, pip_install


@dataclass(frozen=True)
class LocalSource:
    """A file here."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def fingerprint(self) -> str:
        """A hash of the content, independent of the path."""
        with self.path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    def fetch(self, name: str) -> list[Path]:
        return [self.path]


@dataclass(frozen=True)
class Hub:
    """Files of a data set on the hub, at a revision."""

    repository: str
    revision: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        short = self.revision[:8] if re.fullmatch("[0-9a-f]{40}", self.revision) else self.revision
        return f"{self.repository}@{short}"

    @property
    def fingerprint(self) -> str:
        return f"hub:{self.repository}@{self.revision}:{','.join(self.files)}"

    def fetch(self, name: str) -> list[Path]:
        """Local copies of the files, from the hub's cache where they are in it."""
        return [self._download(file, name) for file in self.files]

    def _download(self, file: str, name: str) -> Path:
        try:
            from huggingface_hub import errors, hf_hub_download
        except ImportError:
            raise MetisError(f"the hub needs huggingface_hub: {pip_install('math')}") from None
        try:
            with _without_warnings():
                fetched = hf_hub_download(
                    self.repository, file, repo_type="dataset", revision=self.revision
                )
        except Exception as error:  # of the hub, the disk, or whatever carries its requests
            reason = _reason(error, errors, self, file)
            raise MetisError(f"{name}: {reason}; or give a file: {name}=PATH") from None
        return Path(fetched)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """The hub's client tries a few times and warns of each; in the end there is one error."""
    from huggingface_hub.utils import logging as hub_logging

    before = hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(before)


def _reason(error: Exception, errors: Any, source: Hub, file: str) -> str:
    """A download's error in words, from the most particular kind to the least."""
    here = f"data set {source.repository!r}"
    if isinstance(error, errors.GatedRepoError):
        return f"the hub's {here} wants its terms accepted: do so on its page, then hf auth login"
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return f"the hub has no {here}, or shows it only after hf auth login: check the id"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the hub's {here} has no revision {source.revision!r}: check it"
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(
        error, errors.LocalEntryNotFoundError
    ):
        return f"the hub's {here} has no file {file!r} at {source.revision!r}: check its name"
    cause = error.__cause__ or error
    detail = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
    return f"{file!r} of {here} could not be fetched from the hub ({detail}): connect and try again"


def parse(text: str, name: str, usual: Hub) -> LocalSource | Hub:
    """Parse a source; omitted parts of a hub source have defaults."""
    path = Path(text).expanduser()
    if path.is_file():
        return LocalSource(path)
    if text and path.is_dir():
        raise MetisError(f"{name} = {text!r}: a folder; name a file in it")
    written = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:@([^:]+))?(?::(.+))?", text)
    if written is None or (text.endswith(SUFFIXES) and ":" not in text):
        raise MetisError(
            f"{name} = {text!r}: no such file; give one, or ORG/NAME@REVISION:FILE on the hub"
        )
    repository, revision, files = written.groups()
    same = repository == usual.repository
    if files is None and not same:
        raise MetisError(
            f"{name} = {text!r}: no such file; of a data set on the hub name a file as well: "
            f"{name}={repository}@{revision or 'REVISION'}:FILE"
        )
    return Hub(
        repository,
        revision or (usual.revision if same else "main"),
        tuple(files.split(",")) if files else usual.files,
    )
