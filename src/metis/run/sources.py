"""Files of a user's own code that a run depends on, by digest: a resumed run notices changed ones.

Settings name a reward, a task, a curriculum or a judge; what is behind the name may have been
edited since. Only the named file is looked at, not what it imports.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metis import files
from metis.core.importing import digest, is_import_string
from metis.errors import Damaged, MetisError
from metis.run.manifest import SCHEMA

FILE = "sources.json"

REFUSED = ("task.reward",)
"""Settings whose code may not change on the way: rewards of two scales would be one curve."""


def of(config: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a run's own code, by setting; what is not in a file has none."""
    task, curriculum = (config.get(section, {}) for section in ("task", "curriculum"))
    judge = curriculum.get("judge") or {}
    named = {
        "task": task.get("name", ""),
        "task.reward": task.get("reward") or "",
        "curriculum": curriculum.get("name", ""),
        "curriculum.judge": judge.get("name", "") if isinstance(judge, Mapping) else "",
    }
    own = {key: name for key, name in named.items() if is_import_string(str(name))}
    found = {key: digest(name) for key, name in own.items() if not name.startswith("metis.")}
    return {key: value for key, value in found.items() if value}


def check(folder: Path, config: Mapping[str, Any], step: int) -> list[str]:
    """Refuse to resume with another reward than a run was made with; remarks on other code."""
    if not step or not (folder / FILE).exists():
        return []
    before, now = _read(folder), of(config)
    changed = [key for key in now if before.get(key, now[key]) != now[key]]
    for key in changed:
        if key in REFUSED:
            section, _, name = key.partition(".")
            raise MetisError(
                f"{key} = {config[section][name]!r}: its file has changed since this run began: "
                f"restore it, or name another folder with --out; if the change is meant, delete "
                f"{folder / FILE} to go on with it from step {step}"
            )
    return [f"the file of {key} has changed since this run began" for key in changed]


def write(folder: Path, config: Mapping[str, Any]) -> None:
    """Write down the digests, where a run has code of its own."""
    if digests := of(config):
        with files.atomic(folder / FILE) as file:
            file.write(f"{json.dumps({'schema': SCHEMA, **digests}, indent=2)}\n".encode())


def _read(folder: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((folder / FILE).read_bytes())
        return dict(document)
    except (ValueError, TypeError):
        said = f"{str(folder / FILE)!r} is damaged: delete it"
        raise Damaged(said, folder, FILE) from None
