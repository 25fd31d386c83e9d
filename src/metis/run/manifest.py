"""`config.json` and `versions.json` of a run folder.

`config.json` has the current settings and, if a resumed run changed some, the list of changes: one
file, so that both are always consistent.
"""

import contextlib
import json
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import metis
from metis import files
from metis.errors import MetisError

SCHEMA = 1
NO_CHECKPOINT = "no checkpoint was made"

Change = dict[str, Any]
"""The step from which it applies, the key, the old value and the new one."""

RENAMED = {"sinks": "loggers"}
"""Settings that older run folders have under another name."""
GONE = ("answers",)
"""Settings of older run folders that there are no more, and that no result depends on."""


def current(document: Mapping[str, Any]) -> dict[str, Any]:
    """A `config.json` with the present names of its settings."""
    return {RENAMED.get(key, key): value for key, value in document.items() if key not in GONE}


def settings_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a `config.json`, under their present names."""
    settings = current(document)
    return {key: value for key, value in settings.items() if key not in ("schema", "changes")}


def describe_changes(changes: Iterable[Change]) -> str:
    return ", ".join(f"{each['key']} = {each['new']!r} (was {each['old']!r})" for each in changes)


def create(path: Path, config: Mapping[str, Any]) -> None:
    """Create a run folder; `config.json`, which marks it as one, is written last."""
    path.mkdir(parents=True, exist_ok=True)
    _write(path / "versions.json", _versions())
    _write(path / "config.json", config)
    files.sync(path.absolute().parent)


def completion_message(path: Path, step: int, steps: int) -> str:
    """The message for a run whose budget is used up."""
    more = f"metis train {path}/config.json steps=NUMBER --out {path}"
    if 0 < steps < step:
        return f"this run is at step {step}, past steps = {steps}; to train on: {more}"
    return f"this run is complete; to train on with a larger budget: {more}"


def resume_message(path: Path, step: int, made: Iterable[Change], anew: str = NO_CHECKPOINT) -> str:
    """The message for a folder with a run that would resume, or start over."""
    begun = f"would resume from step {step}" if step else f"would start over: {anew}"
    changed = describe_changes(made)
    return f"the run in {path} {begun}{changed and f'; from there on {changed}'}"


def changes(
    path: Path, config: Mapping[str, Any], may_change: Collection[str], step: int
) -> list[Change]:
    """Settings that differ from those of the folder; keys that `may_change` lacks are refused.

    The name of a section stands for all of its keys.
    """
    changed = []
    before, now = read_config(path), json.loads(json.dumps(current(config)))
    for document in (before, now):
        document.pop("changes", None)
    for key, old, new in differences(before, now):
        if old is None and _lacks(before, key):
            continue
        if new is None and _lacks(now, key):
            raise MetisError(
                f"--out {str(path)!r} holds a run of another version of METIS, with {key} = "
                f"{old!r}, which this one does not have: metis report, inspect and view open it, "
                "but it cannot be resumed; name another folder"
            )
        if not any(key == name or key.startswith(f"{name}.") for name in may_change):
            raise MetisError(
                f"--out {str(path)!r} holds a run with {key} = {old!r}, not {new!r}: name another "
                f"folder, or resume with its own settings, {path}/config.json"
            )
        changed.append({"step": step, "key": key, "old": old, "new": new})
    return changed


def _lacks(settings: Mapping[str, Any], key: str) -> bool:
    """True for a setting that the METIS version that wrote its section did not have."""
    *sections, name = key.split(".")
    for section in sections:
        settings = settings.get(section) or {}
    return bool(settings) and name not in settings


def record(path: Path, config: Mapping[str, Any], made: list[Change]) -> None:
    """Write the new settings, and append the changes to the list."""
    before = read_config(path).get("changes", [])
    _write(path / "config.json", {**current(config), "changes": [*before, *made]})


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with files.atomic(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


def read_config(path: Path) -> dict[str, Any]:
    """The `config.json` of a run folder, with present names; refused if missing or corrupted."""
    try:
        return current(json.loads((path / "config.json").read_text("utf-8")))
    except FileNotFoundError:
        raise MetisError(
            f"--out {str(path)!r}: the folder is not empty and not a run folder: name another one"
        ) from None
    except (ValueError, AttributeError, OSError):
        raise MetisError(
            f"config.json of {str(path)!r} is damaged: restore it, or name another with --out"
        ) from None


def _versions() -> dict[str, Any]:
    packages = {}
    for name in ("numpy", "pydantic", "torch", "transformers", "vllm", "verl", "trl", "peft"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "schema": SCHEMA,
        "metis": metis.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
    }


def differences(old: Any, new: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The dotted keys that differ between two documents, with both values; None where missing."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{prefix}{key}.")
    elif old != new:
        yield prefix.rstrip("."), old, new
