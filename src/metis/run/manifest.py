"""The identity of a run folder: its settings, those changed on the way, and its versions.

`config.json` holds the settings that are in force and, where a resumed run had others than before,
the list of these changes: one file, so that nobody finds the one without the other.
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
"""The step it is in force from, the key, the old value and the new one."""


def settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings alone of a `config.json`."""
    return {key: value for key, value in document.items() if key not in ("schema", "changes")}


def described(changes: Iterable[Change]) -> str:
    return ", ".join(f"{each['key']} = {each['new']!r} (was {each['old']!r})" for each in changes)


def make(path: Path, config: Mapping[str, Any]) -> None:
    """Make a folder; `config.json`, which says what it is of, comes last."""
    path.mkdir(parents=True, exist_ok=True)
    _write(path / "versions.json", _versions())
    _write(path / "config.json", config)
    files.sync(path.absolute().parent)


def complete(path: Path, step: int, steps: int) -> str:
    """A sentence about a run whose budget is spent, or that is past a smaller one."""
    more = f"metis train {path}/config.json steps=NUMBER --out {path}"
    if 0 < steps < step:
        return f"this run is at step {step}, past steps = {steps}; with more it goes on: {more}"
    return f"this run is complete; with a larger budget it goes on: {more}"


def resuming(path: Path, step: int, made: Iterable[Change], anew: str = NO_CHECKPOINT) -> str:
    """A sentence about a run that a folder holds and that would go on."""
    begun = f"would resume from step {step}" if step else f"would start over: {anew}"
    changed = described(made)
    return f"the run in {path} {begun}{changed and f'; from there on {changed}'}"


def changes(
    path: Path, config: Mapping[str, Any], may_change: Collection[str], step: int
) -> list[Change]:
    """Settings that a run goes on with and that were others; keys that may not change are refused.

    The name of a section stands for all of its keys.
    """
    changed = []
    before, now = read(path), json.loads(json.dumps(config))
    for document in (before, now):
        document.pop("changes", None)
    for key, old, new in differences(before, now):
        if old is None and _younger(before, key):
            continue
        if not any(key == name or key.startswith(f"{name}.") for name in may_change):
            raise MetisError(
                f"--out {str(path)!r} holds a run with {key} = {old!r}, not {new!r}: name another "
                f"folder, or go on with its own settings, as {path}/config.json has them"
            )
        changed.append({"step": step, "key": key, "old": old, "new": new})
    return changed


def _younger(settings: Mapping[str, Any], key: str) -> bool:
    """True of a setting that its section, written by an older METIS, does not have."""
    *sections, name = key.split(".")
    for section in sections:
        settings = settings.get(section) or {}
    return bool(settings) and name not in settings


def record(path: Path, config: Mapping[str, Any], made: list[Change]) -> None:
    """Put changed settings in force, and keep what they were."""
    before = read(path).get("changes", [])
    _write(path / "config.json", {**config, "changes": [*before, *made]})


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with files.atomic(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


def read(path: Path) -> dict[str, Any]:
    """The `config.json` of a run folder; what is none, or is damaged, is refused."""
    try:
        document: dict[str, Any] = json.loads((path / "config.json").read_text("utf-8"))
    except FileNotFoundError:
        raise MetisError(
            f"--out {str(path)!r}: the folder is not empty and not a run folder: name another one"
        ) from None
    except ValueError:
        raise MetisError(
            f"config.json of {str(path)!r} is damaged: restore it, or name another with --out"
        ) from None
    return document


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
    """The dotted keys in which two documents differ, with both values; None where one has none."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{prefix}{key}.")
    elif old != new:
        yield prefix.rstrip("."), old, new
