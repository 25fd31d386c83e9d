"""Rewards of verl's validation, by prompt."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

PROMPT = "prompt"
"""The key under which a reward function may report the prompt's id."""

REPORTED = "reward/"
"""Prefix of everything else that a reward function reports."""

Key = tuple[str, str]
"""A data source, and verl's uid of a prompt."""


class Heldout:
    """Mean rewards of held-out prompts; failed answers count as 0.

    verl gives one value per finished answer, and the number of answers requested.
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
        """The rewards per data source; a single one has the name ""."""
        parts: dict[str, list[float]] = defaultdict(list)
        for (source, _), reward in self.rewards.items():
            parts[source.removeprefix("metis/")].append(reward)
        return dict(parts) if len(parts) > 1 else {"": list(self.rewards.values())}

    def failures(self) -> dict[str, float]:
        return {"eval/failed": float(self.failed)} if self.failed else {}

    def by_prompt(self) -> dict[str, float]:
        return {name: self.rewards[key] for key, name in self.names.items() if name is not None}
