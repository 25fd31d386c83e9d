"""Rewards of verl's validation, by prompt."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from metis.engines.verl.servers.said import FAILURE

Key = tuple[str, str]
"""Data source, and verl's uid of a prompt."""


class Answers(NamedTuple):
    """verl's columns of a validation, with a value per answer."""

    sources: Sequence[str]
    uids: Sequence[str]
    infos: Mapping[str, Sequence[Any]]
    """Rewards and the other values that reward functions report, by name."""
    turns: Sequence[Any]

    def valid(self) -> Self:
        """The answers without failed ones, as if verl had dropped them."""
        places = [n for n, reward in enumerate(self.infos["reward"]) if math.isfinite(reward)]

        def chosen(values: Sequence[Any]) -> list[Any]:
            return [values[place] for place in places]

        infos = {name: chosen(values) for name, values in self.infos.items() if name != FAILURE}
        return type(self)(chosen(self.sources), chosen(self.uids), infos, chosen(self.turns))


class Heldout:
    """Mean rewards of held-out prompts; failed answers count as 0.

    verl gives one value per finished answer, and the number of answers requested. `names` has the
    known prompt ids by uid.
    """

    def __init__(
        self,
        answers: Answers,
        expected: Mapping[Key, int] | None,
        names: Mapping[str, str],
    ) -> None:
        keys = list(zip(answers.sources, answers.uids, strict=True))
        values = answers.infos["acc" if "acc" in answers.infos else "reward"]
        sums: dict[Key, float] = defaultdict(float)
        counts: dict[Key, int] = defaultdict(int)
        for key, value in zip(keys, values, strict=True):
            sums[key] += float(value or 0.0)
            counts[key] += 1
        asked = expected or counts
        self.failed = sum(asked.values()) - sum(counts.values())
        self.rewards = {key: sums[key] / n for key, n in asked.items()}
        self.names = names

    def by_source(self) -> dict[str, list[float]]:
        """The rewards per data source; a single one has the name ""."""
        parts: dict[str, list[float]] = defaultdict(list)
        for (source, _), reward in self.rewards.items():
            parts[source.removeprefix("metis/")].append(reward)
        return dict(parts) if len(parts) > 1 else {"": list(self.rewards.values())}

    def failures(self) -> dict[str, float]:
        return {"eval/failed": float(self.failed)} if self.failed else {}

    def by_prompt(self) -> dict[str, float]:
        known = ((uid, reward) for (_, uid), reward in self.rewards.items() if uid in self.names)
        return {self.names[uid]: reward for uid, reward in known}
