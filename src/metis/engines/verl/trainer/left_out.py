"""Prompts that verl leaves out of its data for their length, and does not count for anyone."""

from collections.abc import Iterator
from typing import Any

import datasets


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
    """Rows of the files that a dataset lacks; none where it does not name its files."""
    rows = sum(map(_rows, getattr(dataset, "data_files", ())))
    return max(0, (min(rows, most) if most > 0 else rows) - len(dataset))


def _rows(file: str) -> int:
    """The rows of a file as verl reads it."""
    kind = "parquet" if file.endswith(".parquet") else "json"
    return int(datasets.load_dataset(kind, data_files=file)["train"].num_rows)
