"""Prompts that verl leaves out of its data for their length, and does not count for anyone."""

from collections.abc import Iterator
from typing import Any

import datasets

KINDS = {".parquet": "parquet", ".jsonl": "json", ".json": "json"}


def notices(config: Any, training: Any, heldout: Any) -> Iterator[str]:
    """A line for the training prompts that were dropped, and one for the held-out ones."""
    parts = (("training", training, "train"), ("held-out", heldout, "val"))
    for name, dataset, split in parts:
        most = config.get(f"{split}_max_samples", -1)
        if dropped := _dropped(dataset, most):
            yield (
                f"data.max_prompt_length = {config.max_prompt_length}: {dropped} of "
                f"{dropped + len(dataset)} {name} prompts are longer and were left out; to have "
                "them, raise it (engine.max_prompt)"
            )


def _dropped(dataset: Any, most: int) -> int:
    """Rows of its files that a dataset lacks; none where they are not of the kinds verl reads."""
    files = getattr(dataset, "data_files", ())
    if not all(file.endswith(tuple(KINDS)) for file in files):
        return 0
    rows = sum(map(_rows, files))
    return max(0, (min(rows, most) if most > 0 else rows) - len(dataset))


def _rows(file: str) -> int:
    """The rows of a file as verl reads it."""
    kind = next(kind for ending, kind in KINDS.items() if file.endswith(ending))
    return int(datasets.load_dataset(kind, data_files=file)["train"].num_rows)
