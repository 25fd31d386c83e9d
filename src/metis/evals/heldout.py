"""The run's own test: what training held out, or its benchmarks, through the run's own task."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from metis.errors import MetisError
from metis.run import folder as run_folder
from metis.run.folder import DATA
from metis.settings.sections import task_of
from metis.tasks.benchmarks.catalogue import OWN
from metis.tasks.benchmarks.sets import PromptSet, scorer, source
from metis.tasks.benchmarks.validation import Validated

FILES = ("path", "heldout_path")
"""Settings of tasks that name files."""


def own_sets(settings: Mapping[str, Any], run: Path | None) -> list[PromptSet]:
    """The test of a run with these settings; without a run, the held-out prompts of their task."""
    settings = _with_its_data(settings, run)
    _require_files(settings["task"], run)
    task = task_of(settings)
    if isinstance(task, Validated):
        sets = task.sets()
    else:
        prompts, own, code = tuple(task.heldout()), run is not None, source(task)
        asked = PromptSet(OWN, "held-out", task, prompts, scorer(task), own=own, source=code)
        sets = [replace(asked, reported=tuple(getattr(task, "reported", ())))]
    if run is not None:
        _require_tested(sets, run)
    return sets


def _with_its_data(settings: Mapping[str, Any], run: Path | None) -> Mapping[str, Any]:
    """The settings with the path of the run's own copy of the data, where the folder is now."""
    path = Path(settings["task"].get("path") or "")
    if run is None or path.name != DATA or path.exists() or not (run / DATA).exists():
        return settings
    return {**settings, "task": {**settings["task"], "path": str(run / DATA)}}


def _require_files(task: Mapping[str, Any], run: Path | None) -> None:
    whose = "" if run is None else f"run {str(run)!r}: "
    for key in FILES:
        name = task.get(key)
        if name and not Path(name).exists():
            raise MetisError(
                f"{whose}task.{key} = {name!r}: no such file; paths are from where training was "
                f"started: go there, or say where it is now with task.{key}=FILE"
            )


def _require_tested(sets: list[PromptSet], run: Path) -> None:
    """Refuse a test of other prompts than training had: it may have trained on them."""
    tested = {row["prompt"] for row in run_folder.log_rows(run, "evals", optional=True)}
    gone = tested - {prompt.id for each in sets for prompt in each.prompts}
    if gone:
        raise MetisError(
            f"run {str(run)!r}: {len(gone):,} of the {len(tested):,} prompts that training tested "
            "on are not held out now, so that others were trained on: its data or its settings "
            "have changed since; restore them"
        )
