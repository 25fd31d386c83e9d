"""Hashes of the files that a run depends on, so that a resumed run notices changes.

Covers a user's own reward, task, curriculum and judge, not what they import; and the files of
problems: prompts alone do not show that an answer has changed.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from metis import files
from metis.core.importing import is_import_string, source_digest
from metis.errors import Damaged, MetisError
from metis.run.manifest import SCHEMA

FILE = "sources.json"

DATA = ("task.path", "task.heldout_path", "benchmarks")
REFUSED = ("task.reward", *DATA)
"""Settings whose files may not change during a run: rewards would not be comparable."""


def source_digests(config: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of a run's files, by setting; of several files of one setting, by its value."""
    return {**_code(config), **dict(_data(config))}


def _code(config: Mapping[str, Any]) -> dict[str, str]:
    task, curriculum = (config.get(section, {}) for section in ("task", "curriculum"))
    judge = curriculum.get("judge") or {}
    named = {
        "task": task.get("name", ""),
        "task.reward": task.get("reward") or "",
        "curriculum": curriculum.get("name", ""),
        "curriculum.judge": judge.get("name", "") if isinstance(judge, Mapping) else "",
    }
    own = {key: name for key, name in named.items() if is_import_string(str(name))}
    found = {key: source_digest(name) for key, name in own.items() if not name.startswith("metis.")}
    return {key: value for key, value in found.items() if value}


def _data(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in DATA:
        for value in _values(config, key):
            if isinstance(value, str) and (path := Path(value).expanduser()).is_file():
                about = path.stat()
                digest = _digest(path.resolve(), about.st_size, about.st_mtime_ns)
                yield (key if "." in key else f"{key} {value}"), digest


def _values(config: Mapping[str, Any], key: str) -> list[Any]:
    """The value of a setting, or the values in its list."""
    section, _, name = key.partition(".")
    found = config.get(section)
    found = found.get(name) if name and isinstance(found, Mapping) else found
    return found if isinstance(found, list) else [found]


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def check_sources(folder: Path, config: Mapping[str, Any], begun: bool) -> list[str]:
    """Refuse to resume with a changed reward or data file; returns remarks on other changed code.

    `begun` is False where there is nothing to resume.
    """
    if not begun or not (folder / FILE).exists():
        return []
    before, now = _read(folder), source_digests(config)
    changed = [key for key in now if before.get(key, now[key]) != now[key]]
    for key in changed:
        if (setting := key.partition(" ")[0]) in REFUSED:
            values = ", ".join(map(repr, _values(config, setting)))
            raise MetisError(
                f"{setting} = {values}: its file has changed since this run began: "
                f"restore it, or name another folder with --out; if the change is intended, delete "
                f"{folder / FILE} to resume with it"
            )
    return [f"the file of {key} has changed since this run began" for key in changed]


def write_sources(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the hashes, if a run has such files."""
    if digests := source_digests(config):
        with files.atomic(folder / FILE) as file:
            file.write(f"{json.dumps({'schema': SCHEMA, **digests}, indent=2)}\n".encode())


def _read(folder: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((folder / FILE).read_bytes())
        return dict(document)
    except (ValueError, TypeError):
        said = f"{str(folder / FILE)!r} is damaged: delete it"
        raise Damaged(said, folder, FILE) from None
