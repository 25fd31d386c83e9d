"""verl's training data as prompts, one per row of the dataset.

`extra_info` may have the text for the judge (`text`, or in prepared files `problem`), `id`,
`category` and `difficulty`; the defaults are the last user message, data source and row number, and
the data source. verl silently drops prompts that are too long: `overlong_notices` count them.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import datasets
import numpy as np
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn

from metis.core import Chat, Prompt
from metis.errors import MetisError


class PromptData:
    """The training set, by prompt."""

    def __init__(self, dataset: Any) -> None:
        _require_text(dataset)
        self.dataset = dataset
        self.prompts = [
            _prompt(row, i, dataset.prompt_key) for i, row in enumerate(dataset.dataframe)
        ]
        self.places = {prompt.id: i for i, prompt in enumerate(self.prompts)}

    def ground_truth(self, prompt_id: str) -> Any:
        reward = self.dataset.dataframe[self.places[prompt_id]].get("reward_model") or {}
        return reward.get("ground_truth")

    def expected(self, prompt: Prompt) -> str:
        """The ground truth of a training prompt as text."""
        return str(self.ground_truth(prompt.id) or "") if prompt.id in self.places else ""

    def chat(self, prompt: Prompt) -> Chat:
        """The chat that the policy answers."""
        messages: Chat = self.dataset.dataframe[self.places[prompt.id]][self.dataset.prompt_key]
        return messages

    def batch(
        self, prompts: Sequence[Prompt], uids: Sequence[str], counts: Sequence[int], step: int
    ) -> Any:
        """The input of verl's agent loops: the rows, with the number of rollouts of each."""
        columns = collate_fn([self.dataset[self.places[prompt.id]] for prompt in prompts])
        columns["uid"] = np.array(uids, dtype=object)
        columns["__rollout_n__"] = np.array(counts, dtype=object)
        batch = tensordict_utils.get_tensordict(columns)
        tensordict_utils.assign_non_tensor_data(batch, "global_steps", step)
        return batch


def _require_text(dataset: Any) -> None:
    for column in (dataset.image_key, dataset.video_key, dataset.audio_key):
        if column in dataset.dataframe.column_names:
            raise MetisError(
                f"data.train_files: the column {column!r} is not text; only text is supported: use "
                "data without it"
            )


def _prompt(row: Mapping[str, Any], number: int, key: str) -> Prompt:
    extra = row.get("extra_info") or {}
    source = str(row.get("data_source", "data"))
    difficulty = extra.get("difficulty")
    return Prompt(
        id=str(extra.get("id") or f"{source}:{extra.get('index', number)}"),
        text=str(extra.get("text") or extra.get("problem") or _question(row[key], number)),
        category=str(extra.get("category") or source),
        difficulty=None if difficulty is None else _number(difficulty, number),
    )


def heldout_prompt(row: Mapping[str, Any]) -> Prompt:
    """The held-out prompt of a validation row; its text for a judge is unknown.

    Without an id it is named SOURCE:heldout:INDEX, or by a hash of its messages; `heldout` tells it
    from training prompts of the same source, which are numbered from 0 too.
    """
    extra, source = row.get("extra_info") or {}, str(row.get("data_source", "data"))
    place = extra.get("index")
    if place is None:
        said = json.dumps(row["raw_prompt"], default=str)
        place = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:12]
    name = str(extra.get("id") or f"{source}:heldout:{place}")
    return Prompt(name, "", str(extra.get("category") or source))


def _number(difficulty: Any, number: int) -> float:
    try:
        return float(difficulty)
    except (TypeError, ValueError):
        raise MetisError(
            f"data.train_files: extra_info.difficulty of row {number} is {difficulty!r}: write a "
            "number there, or leave it out"
        ) from None


def _question(messages: Any, number: int) -> str:
    """The last user message."""
    said = [message["content"] for message in messages if message["role"] == "user"]
    if not said or not isinstance(said[-1], str):
        raise MetisError(
            f"data.train_files: row {number} has no user message of plain text for a judge to "
            "read; put the text into extra_info.text"
        )
    return str(said[-1])


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
    rows = sum(map(_rows_of, files))
    return max(0, (min(rows, most) if most > 0 else rows) - len(dataset))


def _rows_of(file: str) -> int:
    """The number of rows of a file."""
    kind = next(kind for ending, kind in KINDS.items() if file.endswith(ending))
    return int(datasets.load_dataset(kind, data_files=file)["train"].num_rows)
