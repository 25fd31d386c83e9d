"""Keyword arguments (mappings, objects, functions) as the settings of a recipe or a command."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metis import config
from metis.commands import plain_console
from metis.config.objects import as_settings
from metis.config.recipe import split_override
from metis.core.in_memory import is_in_memory
from metis.engines import ENGINES
from metis.errors import MetisError, require
from metis.library.data import filed

if TYPE_CHECKING:
    from rich.console import Console

FILE_TASK = "file"
"""The task of rows."""

FOREIGN = {"train_dataset": "data", "reward_funcs": "reward", "eval_dataset": "benchmarks"}
"""Arguments of TRL's trainers, and ours."""


@contextmanager
def gathered(
    settings: Mapping[str, Any], model: str | Path | None, data: Any, reward: Any, folder: Path
) -> Iterator[list[tuple[str, Any]]]:
    """Settings as dotted keys and values; rows given in memory are written into the folder.

    Data goes to the task `file`, unless the settings name another.
    """
    for name in settings.keys() & FOREIGN.keys():
        raise MetisError(f"unknown key {name!r}: that is {FOREIGN[name]!r} here")
    given = dict(settings)
    if model is not None:
        given["engine"] = {**_mapping("engine", given.get("engine", {})), "model": str(model)}
    if reward is not None:
        given["task"] = {**_mapping("task", given.get("task", {})), "reward": reward}
    task = given.get("task", {})
    if isinstance(task, Mapping) and task.get("name", FILE_TASK) == FILE_TASK and "data" in task:
        given["task"] = task = {name: part for name, part in task.items() if name != "data"}
        data = data if data is not None else settings["task"]["data"]
    if data is None:
        yield flattened(given)
        return
    with filed(data, folder) as path:
        given["task"] = {"name": FILE_TASK, **_mapping("task", task), "path": path}
        yield flattened(given)


def assembled(recipe: str | Path | None, settings: list[tuple[str, Any]]) -> config.Config:
    """The complete configuration; notices go to stderr."""
    run_config = config.assemble(Path(recipe) if recipe else None, settings)
    for notice in run_config.notices:
        print(f"metis: {notice}", file=sys.stderr)
    return run_config


def require_here(run_config: config.Config) -> None:
    """Refuse a function that is in no file if other processes compute the rewards."""
    reward = run_config.resolved.get("task", {}).get("reward")
    if is_in_memory(reward) and ENGINES[run_config.engine_name].trainer:
        raise elsewhere(reward, f"engine = {run_config.engine_name!r}")


def elsewhere(reward: Any, what: str) -> MetisError:
    """The error for a function that other processes could not import."""
    return MetisError(
        f"task.reward = {reward!r}: {what} computes rewards in processes of its own, which do not "
        "have this function: define it at the top level of a file, and give reward="
        "'path/to/file.py:name'"
    )


def flattened(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Dotted keys and values."""
    return list(_flat(as_settings(settings)))


def words(settings: Iterable[tuple[str, Any]]) -> list[str]:
    """Settings as a command line has them."""
    return [_word(key, value) for key, value in settings if value is not None]


def _word(key: str, value: Any) -> str:
    plain = f"{key}={value}"
    return plain if split_override(plain) == (key, value) else f"{key}={_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def in_memory(data: Any) -> bool:
    """True for rows, false for the path of a file."""
    return data is not None and not isinstance(data, str | Path)


def console(show: bool) -> "Console":
    """The console of a call; a silent one if nothing is to be shown."""
    from rich.console import Console

    return plain_console() if show else Console(quiet=True)


def show_markdown(text: str) -> None:
    """Print a page as a command does."""
    from metis.text.terminal import print_markdown

    print_markdown(text)


def _mapping(key: str, section: Any) -> dict[str, Any]:
    if isinstance(section, str):
        return {"name": section}
    require(isinstance(section, Mapping), key, section, "give a name or a mapping")
    return dict(section)


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings as dotted keys and values; a section's `name` is set by the section's own key."""
    for key, value in settings.items():
        if not isinstance(value, Mapping):
            yield key, _plain(value)
            continue
        for name, part in value.items():
            if key == "curriculum" and isinstance(part, Mapping):
                yield from ((f"{key}.{name}.{inner}", setting) for inner, setting in part.items())
            else:
                yield (key if name == "name" else f"{key}.{name}"), _plain(part)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
