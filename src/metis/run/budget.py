"""A run's budget and running totals, and its best validation."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metis.errors import MetisError
from metis.run.statistics import mean, mean_over_benchmarks

IDLE = 100
"""Consecutive steps without a token after which a run with only a token budget stops."""


@dataclass(frozen=True)
class Budget:
    """The limits of a run, which ends at the first one that it reaches; 0 is no limit.

    `tokens` are generated tokens, `processed` total tokens: every token of a forward pass,
    prompt and generated.
    """

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    processed: int = 0


@dataclass
class Account:
    """Steps, training seconds and counters of a run so far, and its best validation."""

    budget: Budget
    step: int = 0
    elapsed: float = 0.0
    totals: Counter[str] = field(default_factory=Counter)
    best: tuple[int, float] = (0, -math.inf)
    """Step and accuracy of the best validation so far; the first of equals."""
    idle: int = 0
    """Consecutive steps that added nothing to the token budget."""

    @property
    def fraction(self) -> float:
        """Share of the budget spent, by the limit that is closest."""
        spent = (
            (self.step, self.budget.steps),
            (self.generated, self.budget.tokens),
            (self.elapsed, self.budget.seconds),
            (self.processed, self.budget.processed),
        )
        return min(1.0, max((part / whole for part, whole in spent if whole), default=0.0))

    @property
    def generated(self) -> int:
        """Generated tokens, of rollouts and judge replies."""
        return self.totals["rollout/tokens"] + self.totals["judge/tokens"]

    @property
    def processed(self) -> int:
        """Total tokens, prompt + generated: rollouts, judging, hidden states, the update."""
        return sum(n for name, n in self.totals.items() if name.endswith("/processed"))

    @property
    def _limited(self) -> int:
        """Tokens that count towards the token budget."""
        return self.generated + (self.processed if self.budget.processed else 0)

    @property
    def improved(self) -> bool:
        """True if the validation of this step is the best so far."""
        return self.best[0] == self.step

    def count(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Add the counters of a step; returns them and the run's totals as metrics."""
        before = self._limited
        self.totals.update(counts)
        self.idle = 0 if self._limited > before else self.idle + 1
        if self.idle >= IDLE and not (self.budget.steps or self.budget.seconds):
            limit = "tokens" if self.budget.tokens else "processed"
            raise MetisError(
                f"{limit} = {getattr(self.budget, limit)}: no token was generated in {IDLE} steps "
                "in a row, so the run would not end; prompts may exceed the context window"
            )
        totals = {f"total/{name.replace('/', '_')}": n for name, n in sorted(self.totals.items())}
        return {name: float(n) for name, n in (dict(counts) | totals).items()}

    def test(self, rewards: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Record a validation; returns its metrics: mean reward, standard error, best so far.

        `rewards` are by benchmark, each with the same weight; a task's own held-out prompts have
        the name "".
        """
        parts = {name: mean(values) for name, values in rewards.items()}
        whole = mean_over_benchmarks(list(parts.values()))
        if whole.mean > self.best[1]:
            self.best = (self.step, whole.mean)
        metrics = {"eval/accuracy": whole.mean}
        if whole.error is not None:
            metrics["eval/stderr"] = whole.error
        metrics |= {f"eval/accuracy/{name}": part.mean for name, part in parts.items() if name}
        return metrics | {"eval/best": self.best[1], "eval/best_step": float(self.best[0])}

    @classmethod
    def of(cls, budget: Budget, step: int, saved: Mapping[str, Any]) -> "Account":
        """The account saved in a checkpoint."""
        account = cls(budget, step)
        account.load_state_dict(saved)
        return account

    def state_dict(self) -> dict[str, Any]:
        return {"elapsed": self.elapsed, "totals": dict(self.totals), "best": self.best}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        self.elapsed, self.totals = saved["elapsed"], Counter(saved["totals"])
        self.best = saved["best"]
