"""The commands that make runs and reports again, and settings without the paths of a machine."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from metis.run.recorded import Recorded

_PATH = re.compile(
    r"""(?<![\w.~/:-])            # not within a word, a relative path or an address
    (?:~?/|[A-Za-z]:[/\\])(?:[^\s/\\'",;=<>]+[/\\])+  # from the root, through one folder or more
    ([^\s/\\'",;=<>]+)""",
    re.VERBOSE,
)


def portable(value: Any) -> Any:
    """A value of the settings; of absolute paths in it only the last name is left."""
    if isinstance(value, dict):
        return {key: portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [portable(item) for item in value]
    return _PATH.sub(r"…/\1", value) if isinstance(value, str) else value


def command(*words: str) -> str:
    """A command line for a shell."""
    return str(portable(shlex.join(["metis", *words])))


def of_runs(runs: Sequence[Recorded]) -> list[str]:
    """Train each run again by its own settings; draw the same page."""
    names = [run.folder.resolve().name for run in runs]
    trained = [command("train", f"{name}/config.json", "--out", f"again/{name}") for name in names]
    return [*trained, command("report", *(f"again/{name}" for name in names))]
