"""Notices about prompts that verl silently drops because they are too long."""

from collections.abc import Iterator
from typing import Any

import datasets

KINDS = {".parquet": "parquet", ".jsonl": "json", ".json": "json"}


def overlong_notices(config: Any, training: Any, heldout: Any) -> Iterator[str]:
    """One notice for dropped training prompts, one for held-out prompts."""
    parts = (("training", training, "train"), ("held-out", heldout, "val"))
    for name, dataset, split in parts:
        most = config.get(f"{split}_max_samples", -1)
        if dropped := _dropped(dataset, most):
            yield (
                f"data.max_prompt_length = {config.max_prompt_length}: {dropped} of "
                f"{dropped + len(dataset)} {name} prompts are longer and were dropped; raise it "
                "(engine.max_prompt) to keep them"
            )


def _dropped(dataset: Any, most: int) -> int:
    """The number of rows dropped from a dataset's files; 0 for unknown file types."""
    files = getattr(dataset, "data_files", ())
    if not all(file.endswith(tuple(KINDS)) for file in files):
        return 0
    rows = sum(map(_rows, files))
    return max(0, (min(rows, most) if most > 0 else rows) - len(dataset))


def _rows(file: str) -> int:
    """The number of rows of a file."""
    kind = next(kind for ending, kind in KINDS.items() if file.endswith(ending))
    return int(datasets.load_dataset(kind, data_files=file)["train"].num_rows)
