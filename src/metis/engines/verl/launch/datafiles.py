"""A task as the parquet files that verl reads."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from metis.core import Prompt
from metis.tasks.base import Task
from metis.tasks.benchmarks.validation import benchmark


def write_data(config: Any, folder: Path) -> None:
    """Training prompts, and those to test on."""
    from pyarrow import Table, parquet

    folder.mkdir(exist_ok=True)
    task, tested = config.task, bool(config.training.benchmarks)
    for name, prompts in (("train", task.training()), ("heldout", task.heldout())):
        target = folder / f"{name}.parquet"
        draft = target.with_suffix(".draft")
        source = benchmark if tested and name == "heldout" else _one_source
        parquet.write_table(Table.from_pylist(list(rows(task, prompts, source))), draft)
        draft.replace(target)


def _one_source(prompt: str) -> str:
    return "metis"


def rows(
    task: Task, prompts: Sequence[Prompt], source: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """verl reports of each data source for itself."""
    for i, prompt in enumerate(prompts):
        yield {
            "data_source": source(prompt.id),
            "prompt": [dict(message) for message in task.episode(prompt).chat],
            "ability": prompt.category,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "index": i,
                "id": prompt.id,
                "text": prompt.text,
                "category": prompt.category,
                "difficulty": prompt.difficulty,
            },
        }
