"""Hashes of a user's own code that a run depends on, so that a resumed run notices changes.

Covers the files of a reward, task, curriculum or judge named in the settings, not what they import.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metis import files
from metis.core.importing import is_import_string, source_digest
from metis.errors import Damaged, MetisError
from metis.run.manifest import SCHEMA

FILE = "sources.json"

REFUSED = ("task.reward",)
"""Settings whose code may not change during a run: rewards would not be comparable."""


def source_digests(config: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of a run's user code, by setting."""
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


def check_sources(folder: Path, config: Mapping[str, Any], step: int) -> list[str]:
    """Refuse to resume with a changed reward; returns remarks on other changed code."""
    if not step or not (folder / FILE).exists():
        return []
    before, now = _read(folder), source_digests(config)
    changed = [key for key in now if before.get(key, now[key]) != now[key]]
    for key in changed:
        if key in REFUSED:
            section, _, name = key.partition(".")
            raise MetisError(
                f"{key} = {config[section][name]!r}: its file has changed since this run began: "
                f"restore it, or name another folder with --out; if the change is intended, delete "
                f"{folder / FILE} to resume with it from step {step}"
            )
    return [f"the file of {key} has changed since this run began" for key in changed]


def write_sources(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the hashes, if a run has user code."""
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
