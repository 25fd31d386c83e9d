"""Commands that reproduce runs and reports, and settings without this machine's paths."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
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


def place(folder: Path) -> Path:
    """A folder as commands name it: from the working directory, or by its name if it is elsewhere.

    The paths of a machine are nobody else's.
    """
    whole, here = folder.resolve(), Path.cwd().resolve()
    return whole.relative_to(here) if whole.is_relative_to(here) else Path(whole.name)


def of_runs(runs: Sequence[Recorded]) -> list[str]:
    """The commands that train each run again and draw the same page."""
    places = [place(run.folder) for run in runs]
    again = [Path("again") / (path.name and path) for path in places]
    trained = [
        command("train", str(path / "config.json"), "--out", str(out))
        for path, out in zip(places, again, strict=True)
    ]
    folders = [run.folder for run in runs]
    return [*elsewhere(folders), *trained, command("report", *map(str, again))]


def elsewhere(folders: Sequence[Path]) -> list[str]:
    """A remark where commands about these folders do not work from the working directory."""
    here = Path.cwd().resolve()
    wholes = [folder.resolve() for folder in folders]
    names = [whole.name for whole in wholes if not whole.is_relative_to(here)]
    return [f"# from the folder that has {', '.join(names)}"] if names else []
