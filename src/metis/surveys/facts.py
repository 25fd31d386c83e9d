"""Facts of a training set, from the outcomes of a random sample of it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from metis.run.statistics import KINDS, NORMAL, group_kind
from metis.signal import variance


class PromptOutcome(NamedTuple):
    """Rewards and lengths of the rollouts of one prompt."""

    prompt: str
    category: str
    rewards: tuple[float, ...]
    tokens: tuple[int, ...]
    failed: int
    cut_off: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "PromptOutcome":
        """As a row of the log has it."""
        return cls(
            row["prompt"],
            row["category"],
            tuple(row["rewards"]),
            tuple(row["tokens"]),
            row["failed"],
            row["cut_off"],
        )

    @property
    def variance(self) -> float | None:
        """Eq. 3; None below two valid rollouts."""
        return variance(self.rewards) if len(self.rewards) > 1 else None

    @property
    def kind(self) -> str:
        return group_kind(self.rewards)


class Share(NamedTuple):
    """A share of the sampled prompts with its 95% Wilson interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, count: int, whole: int) -> "Share":
        if not whole:
            return cls(0.0, 0.0, 1.0)
        p, z = count / whole, NORMAL**2 / whole
        middle = (p + z / 2) / (1 + z)
        half = NORMAL / (1 + z) * math.sqrt(p * (1 - p) / whole + z / (4 * whole))
        return cls(p, max(0.0, middle - half), min(1.0, middle + half))


@dataclass(frozen=True)
class SurveyFacts:
    """Facts of a training set, estimated from a sample."""

    outcomes: Sequence[PromptOutcome]

    def shares(self, category: str | None = None) -> dict[str, Share]:
        """By kind; of one category, or of all."""
        outcomes = [o for o in self.outcomes if category is None or o.category == category]
        counts = Counter(outcome.kind for outcome in outcomes)
        return {kind: Share.of(counts[kind], len(outcomes)) for kind in KINDS}

    @property
    def informative(self) -> Share:
        return self.shares()["informative"]

    @property
    def categories(self) -> dict[str, int]:
        """Prompts sampled by category, in their order."""
        return dict(sorted(Counter(outcome.category for outcome in self.outcomes).items()))

    @property
    def variances(self) -> list[float]:
        return [v for outcome in self.outcomes if (v := outcome.variance) is not None]

    def ceiling(self, multiplier: int) -> float | None:
        """Ceiling of any selection: the mean variance of the best 1/m of the sample over the
        mean of all; None where nothing varies."""
        variances = sorted(self.variances, reverse=True)
        if not variances or not sum(variances):
            return None
        best = variances[: max(1, len(variances) // multiplier)]
        return float(np.mean(best) / np.mean(variances))

    def histogram(self, bins: int = 8) -> list[int]:
        """Prompts by mean reward, rounded to the nearest of `bins` equal parts; all of 0 and all of
        1 alone are at the ends."""
        counts = [0] * (bins + 1)
        for outcome in self.outcomes:
            if outcome.rewards:
                mean = float(np.mean(outcome.rewards))
                inside = min(bins - 1, max(1, round(mean * bins)))
                counts[0 if mean <= 0 else bins if mean >= 1 else inside] += 1
        return counts

    @property
    def rollouts(self) -> int:
        return sum(len(outcome.rewards) + outcome.failed for outcome in self.outcomes)

    @property
    def cut_off(self) -> float:
        """Share of the rollouts that came to the limit of their length."""
        return sum(outcome.cut_off for outcome in self.outcomes) / max(1, self.rollouts)

    @property
    def failed(self) -> float:
        return sum(outcome.failed for outcome in self.outcomes) / max(1, self.rollouts)

    @property
    def waste(self) -> float | None:
        """Share of the generated tokens in groups without variance."""
        whole = sum(sum(outcome.tokens) for outcome in self.outcomes)
        taught = sum(sum(o.tokens) for o in self.outcomes if o.kind == "informative")
        return 1 - taught / whole if whole else None

    def length(self, quantile: float) -> float:
        """A quantile of the tokens of an answer."""
        tokens = [count for outcome in self.outcomes for count in outcome.tokens]
        return float(np.quantile(tokens, quantile)) if tokens else 0.0
