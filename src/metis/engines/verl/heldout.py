"""The results of verl's validation, by prompt."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

PROMPT = "prompt"
"""The key by which a reward function may name the prompt beside the score."""

REPORTED = "reward/"
"""The prefix of anything else that a task's reward reports."""

Key = tuple[str, str]
"""A data source, and verl's name for one of its prompts."""


class Heldout:
    """Mean rewards of held-out prompts: an answer that failed earns nothing.

    verl hands over one value for every answer that came to an end, and how many it had asked for.
    """

    def __init__(
        self,
        keys: Sequence[Key],
        answers: Mapping[str, Sequence[Any]],
        expected: Mapping[Key, int] | None,
    ) -> None:
        values = answers["acc" if "acc" in answers else "reward"]
        sums: dict[Key, float] = defaultdict(float)
        counts: dict[Key, int] = defaultdict(int)
        for key, value in zip(keys, values, strict=True):
            sums[key] += float(value or 0.0)
            counts[key] += 1
        asked = expected or counts
        self.failed = sum(asked.values()) - sum(counts.values())
        self.rewards = {key: sums[key] / n for key, n in asked.items()}
        self.names = dict(zip(keys, answers.get(PROMPT, ()), strict=False))

    def by_source(self) -> dict[str, list[float]]:
        """The rewards of each data source; a single one needs no name."""
        parts: dict[str, list[float]] = defaultdict(list)
        for (source, _), reward in self.rewards.items():
            parts[source.removeprefix("metis/")].append(reward)
        return dict(parts) if len(parts) > 1 else {"": list(self.rewards.values())}

    def failures(self) -> dict[str, float]:
        return {"eval/failed": float(self.failed)} if self.failed else {}

    def by_prompt(self) -> dict[str, float]:
        return {name: self.rewards[key] for key, name in self.names.items() if name is not None}
