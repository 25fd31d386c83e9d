"""Checks that the sandbox has the libraries that the validation programs need."""

from pathlib import Path
from typing import Any

from metis.data import parquet
from metis.errors import MetisError
from metis.tasks.code import libraries, records
from metis.tasks.code.pool import LIBRARIES

FUNCTION = "score_code"
SOURCE = "metis/bigcodebench"
"""The only benchmark whose programs need more than the standard library."""
COLUMNS = ("data_source", "reward_model.ground_truth")


def check_libraries(config: Any) -> None:
    """Refuse validation programs that the sandbox cannot run, which would count as wrong."""
    if config.reward.custom_reward_function.name != FUNCTION:
        return
    files = config.data.val_files
    needed: set[str] = set()
    for file in [files] if isinstance(files, str) else files:
        for source, truth in parquet.values(Path(file), COLUMNS):
            if source == SOURCE:
                needed.update(records.loads(truth).get("libraries", ()))
    if lacking := libraries.missing(needed):
        raise MetisError(
            f"data.val_files: programs of BigCodeBench need {', '.join(sorted(lacking))}, which "
            f"the sandbox lacks; name folders of packages with {LIBRARIES}, or leave it out"
        )
