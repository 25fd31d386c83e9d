"""The throughput of a step in tokens of rollouts alone.

verl's `perf/total_num_tokens` and `perf/throughput` are of every row of the update, those of
judgments and padding among them, so that a judge would look like speed.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def rollout_throughput(
    tags: Iterable[Mapping[str, Any]], seconds: float, gpus: int
) -> dict[str, float]:
    """By verl's rule, of the rows that are rollouts: tokens, and tokens a second and GPU."""
    tokens = sum(tag["seq_len"] for tag in tags if tag["kind"] == "rollout")
    return {
        "perf/rollout_tokens": float(tokens),
        "perf/rollout_throughput": tokens / (seconds * gpus),
    }
