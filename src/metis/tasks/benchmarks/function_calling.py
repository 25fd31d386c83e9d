"""The categories of BFCL's multi-turn part as benchmarks: the dialogues that training held out."""

import os
from pathlib import Path

from metis.errors import MetisError
from metis.tasks.benchmarks.sets import PromptSet, scorer
from metis.tasks.bfcl.dialogue import CATEGORIES
from metis.tasks.bfcl.task import Bfcl, Dialogues, read

TITLES = {f"bfcl_{category}": title for category, title in CATEGORIES.items()}
"""The columns of the paper's table, in their order."""


def data_folder() -> Path:
    """The folder of prepared files: `METIS_DATA`, or where `metis prepare bfcl` puts them."""
    return Path(os.environ.get("METIS_DATA") or "data/bfcl")


def load(name: str, folder: Path | None, settings: Bfcl | None) -> PromptSet:
    """The held-out dialogues of a category, played by the settings of a run or the usual ones."""
    path = (folder or data_folder()) / "heldout.parquet"
    asked = settings or Bfcl()
    category = name.removeprefix("bfcl_")
    key = f"benchmark {name}"
    dialogues = [each for each in read(Bfcl(), str(path), key) if each.category == category]
    if not dialogues:
        raise MetisError(
            f"{key} = {str(path)!r}: no dialogue of {category}; run `metis prepare bfcl`, or name "
            "its folder with --data or METIS_DATA"
        )
    task = Dialogues(asked, (), dialogues)
    prompts = tuple(task.heldout())
    return PromptSet(name, TITLES[name], task, prompts, scorer(task), reported=task.reported)
