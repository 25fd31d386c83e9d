"""The categories of BFCL's multi-turn part as benchmarks: the dialogues that training held out."""

import os
from pathlib import Path

from metis.errors import MetisError
from metis.tasks.benchmarks.sets import PromptSet, scorer
from metis.tasks.bfcl.document import CATEGORIES
from metis.tasks.bfcl.task import Bfcl, Dialogues, read_dialogues

TITLES = {f"bfcl_{category}": title for category, title in CATEGORIES.items()}
"""The columns of the paper's table, in their order."""


def heldout_file(folder: Path | None, settings: Bfcl) -> Path:
    """The file to test with: of the folder, or of `METIS_DATA`; else the one of the settings, so
    that a run is not tested with dialogues of another split, some of which it was trained on."""
    named = folder or os.environ.get("METIS_DATA")
    if named:
        return Path(named) / "heldout.parquet"
    return Path(settings.heldout_path or Bfcl.heldout_path)


def load(name: str, folder: Path | None, settings: Bfcl | None) -> PromptSet:
    """The held-out dialogues of a category, played by the settings of a run or the usual ones."""
    asked = settings or Bfcl()
    path = heldout_file(folder, asked)
    category = name.removeprefix("bfcl_")
    key = f"benchmark {name}"
    dialogues = [
        each for each in read_dialogues(Bfcl(), str(path), key) if each.category == category
    ]
    if not dialogues:
        raise MetisError(
            f"{key} = {str(path)!r}: no dialogue of {category}; run `metis prepare bfcl`, or name "
            "its folder with --data or METIS_DATA"
        )
    task = Dialogues(asked, (), dialogues)
    prompts = tuple(task.heldout())
    return PromptSet(name, TITLES[name], task, prompts, scorer(task), reported=task.reported)
