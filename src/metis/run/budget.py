"""The account of a run: what it has spent of its budget, and its validations."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metis.errors import MetisError
from metis.run.statistics import average, mean

IDLE = 100
"""Steps without a token, after which a budget of tokens alone is given up."""


@dataclass(frozen=True)
class Budget:
    """The budget of a run, which ends at the first of these limits that it reaches; 0 is none.

    `tokens` are those the policy wrote, `processed` all that passed through a network.
    """

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    processed: int = 0


@dataclass
class Account:
    """Steps, seconds of training and everything that was counted; of the tests, the best."""

    budget: Budget
    step: int = 0
    elapsed: float = 0.0
    totals: Counter[str] = field(default_factory=Counter)
    best: tuple[int, float] = (0, -math.inf)
    """The step that tested best so far, and its accuracy; of equals, the first."""
    idle: int = 0
    """Steps in a row in which nothing was counted towards a budget of tokens."""

    @property
    def fraction(self) -> float:
        """Share of the budget that is spent: that of the limit which is nearest."""
        spent = (
            (self.step, self.budget.steps),
            (self.generated, self.budget.tokens),
            (self.elapsed, self.budget.seconds),
            (self.processed, self.budget.processed),
        )
        return min(1.0, max((part / whole for part, whole in spent if whole), default=0.0))

    @property
    def generated(self) -> int:
        """Tokens that the policy wrote."""
        return self.totals["rollout/tokens"] + self.totals["judge/tokens"]

    @property
    def processed(self) -> int:
        """Tokens through a network: prompts and answers, judging and hidden states, the update."""
        return sum(n for name, n in self.totals.items() if name.endswith("/processed"))

    @property
    def _limited(self) -> int:
        """Tokens that bring a budget of tokens nearer to its end."""
        return self.generated + (self.processed if self.budget.processed else 0)

    @property
    def improved(self) -> bool:
        """True if the validation of this step is the best so far."""
        return self.best[0] == self.step

    def count(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Add what a step took; the metrics of it, and of the run so far."""
        before = self._limited
        self.totals.update(counts)
        self.idle = 0 if self._limited > before else self.idle + 1
        if self.idle >= IDLE and not (self.budget.steps or self.budget.seconds):
            limit = "tokens" if self.budget.tokens else "processed"
            raise MetisError(
                f"{limit} = {getattr(self.budget, limit)}: nothing was written in {IDLE} steps in "
                "a row, so the run would not end; prompts may be longer than the model reads"
            )
        totals = {f"total/{name.replace('/', '_')}": n for name, n in sorted(self.totals.items())}
        return {name: float(n) for name, n in (dict(counts) | totals).items()}

    def test(self, rewards: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """The metrics of a test: mean reward with its standard error where there is one, and the
        best so far.

        `rewards` are by benchmark, of which each has the same weight; a task's own held-out prompts
        have the name "".
        """
        parts = {name: mean(values) for name, values in rewards.items()}
        whole = average(list(parts.values()))
        if whole.mean > self.best[1]:
            self.best = (self.step, whole.mean)
        metrics = {"eval/accuracy": whole.mean}
        if whole.error is not None:
            metrics["eval/stderr"] = whole.error
        metrics |= {f"eval/accuracy/{name}": part.mean for name, part in parts.items() if name}
        return metrics | {"eval/best": self.best[1], "eval/best_step": float(self.best[0])}

    @classmethod
    def of(cls, budget: Budget, step: int, saved: Mapping[str, Any]) -> "Account":
        """The account of a checkpoint."""
        account = cls(budget, step)
        account.load_state_dict(saved)
        return account

    def state_dict(self) -> dict[str, Any]:
        return {"elapsed": self.elapsed, "totals": dict(self.totals), "best": self.best}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        self.elapsed, self.totals = saved["elapsed"], Counter(saved["totals"])
        self.best = saved["best"]
