"""Prompts with answers, as trackers show them: what was asked, what was written, what it earned."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Exchange:
    """One answer to a prompt; `facts` are its step, reward, and the prompt's place in the plan."""

    id: str
    prompt: str
    answer: str
    facts: Mapping[str, Any]


def exchanges(
    rollouts: Iterable[Mapping[str, Any]], judgments: Iterable[Mapping[str, Any]]
) -> Iterator[Exchange]:
    """The answers that the rows of a step in `rollouts.jsonl` and `judgments.jsonl` have."""
    chosen = {row["prompt"]: row for row in judgments if row["chosen"]}
    for row in rollouts:
        judged = chosen.get(row["prompt"], {})
        named = {"category": row["category"], "reason": judged.get("reason")}
        numbers = {"predicted": judged.get("score"), "variance": judged.get("variance")}
        for answer, reward in zip(row.get("answers", ()), row["rewards"], strict=False):
            facts = {"step": row["step"], "reward": reward, **named, **numbers}
            present = {name: value for name, value in facts.items() if value not in (None, "")}
            yield Exchange(row["prompt"], row["text"], answer, present)
