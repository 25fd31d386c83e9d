"""Rows in the columns that verl reads, of prepared files and of any task that runs on verl."""

from collections.abc import Sequence
from typing import Any

from metis.core import Message, Prompt


def verl_row(
    prompt: Prompt,
    chat: Sequence[Message],
    index: int,
    *,
    source: str,
    ability: str,
    split: str,
    ground_truth: str = "",
) -> dict[str, Any]:
    """A prompt, the chat that opens it, and what its answer is compared with.

    verl scores `math` and `aime...` sources by rules of its own, for answers that are not in a box;
    a source it does not know makes it ask for a reward function.
    """
    return {
        "data_source": source,
        "prompt": [dict(message) for message in chat],
        "ability": ability,
        "reward_model": {"style": "rule", "ground_truth": ground_truth},
        "extra_info": {
            "id": prompt.id,
            "index": index,
            "split": split,
            "problem": prompt.text,
            "category": prompt.category,
            "difficulty": prompt.difficulty,
        },
    }


def schema(pyarrow: Any) -> Any:
    """The column types, also for a field without a value in any row."""
    text = pyarrow.string()
    about = {"id": text, "index": pyarrow.int64(), "split": text, "problem": text, "category": text}
    return pyarrow.schema(
        {
            "data_source": text,
            "prompt": pyarrow.list_(pyarrow.struct({"role": text, "content": text})),
            "ability": text,
            "reward_model": pyarrow.struct({"style": text, "ground_truth": text}),
            "extra_info": pyarrow.struct({**about, "difficulty": pyarrow.float64()}),
        }
    )
