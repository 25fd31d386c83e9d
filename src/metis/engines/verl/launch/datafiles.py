"""Writes a task as parquet files for verl."""

from pathlib import Path
from typing import Any

from metis.data import parquet
from metis.data.verl_rows import verl_row
from metis.tasks.benchmarks.validation import benchmark

SOURCE = "metis"


def write_data(config: Any, folder: Path) -> None:
    """Write training and validation prompts; verl reports metrics per data source."""
    folder.mkdir(exist_ok=True)
    task, tested = config.task, bool(config.training.benchmarks)
    for split, prompts in (("train", task.training()), ("heldout", task.heldout())):
        rows = [
            verl_row(
                prompt,
                task.episode(prompt).chat,
                index,
                source=benchmark(prompt.id) if tested and split == "heldout" else SOURCE,
                ability=prompt.category,
                split=split,
            )
            for index, prompt in enumerate(prompts)
        ]
        parquet.write(folder / f"{split}.parquet", rows, {"task": type(task).__name__})
