"""Pools of prime-rl: prompts are sampled by what their last group earned: hard, normal or easy.

Idea       Most of the signal is in prompts that pass now and then. Others are sampled less often,
           but never left out, since they may change; what is mastered can rest until a new test.
Equation   P(keep x) = w / max w, w the weight of its pool: `hard` if its last mean reward is at
           most 0.25, `normal` up to 0.75, `easy` above, w = 1 before its first group.
Acts       before rollouts
Costs      nothing
Continuous unchanged: pools are by mean reward
Reference  Prime Intellect, prime-rl, `DifficultyPools` (github.com/PrimeIntellect-ai/prime-rl).
Deviations
1. Prompts come in shuffled epochs, and each is kept or skipped once: prime-rl draws from all of
   them every time.
2. If too few are kept for a batch, skipped ones that are not mastered fill it, in their order.
3. mastered, off by default, is what users of prime-rl ask for (its issue 2916): a prompt whose last
   groups all passed is not sampled until `retest` epochs later. If it then fails, it is in the pool
   of its mean reward again.
4. A prompt without a single reward keeps its pool: nothing was observed.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from metis.core import Batch, Decision, Group, Plan, Progress, Prompt, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.errors import require, require_at_least

POOLS = ("hard", "normal", "easy")
NAMES = ("unseen", *POOLS, "mastered")


class Last(NamedTuple):
    """The last group of a prompt: mean reward, groups in a row that all passed, step."""

    mean: float
    passed: int
    step: int


@dataclass
class Pools(Stateful):
    """Samples prompts by a weight for each pool: hard, normal and easy.

    batch, group  B prompts a step, n rollouts each
    hard, easy    mean rewards: at most `hard` is hard, above `easy` is easy (0.25, 0.75)
    weights       of hard, normal and easy prompts (0.2, 1, 0.2)
    mastered      groups in a row that have to pass whole for a prompt to be mastered; 0 is never
    retest        epochs after which a mastered prompt is sampled again (3)
    """

    needs: ClassVar = Needs(data="prompts that come round again")

    batch: int = 256
    group: int = 8
    hard: float = 0.25
    easy: float = 0.75
    weights: tuple[float, float, float] = (0.2, 1.0, 0.2)
    mastered: int = 0
    retest: float = 3.0

    last: dict[str, Last] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"mastered": 0}, "curriculum.")
        for name in ("hard", "easy"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"curriculum.{name}", value, "use a number from 0 to 1")
        require(self.hard <= self.easy, "curriculum.hard", self.hard, "use at most curriculum.easy")
        remedy = "use three numbers, 0 or more, of which one is above 0"
        fine = min(self.weights) >= 0 < max(self.weights)
        require(fine, "curriculum.weights", list(self.weights), remedy)
        require(self.retest > 0, "curriculum.retest", self.retest, "use a number above 0")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.last = {name: Last(*entry) for name, entry in self.last.items()}

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        rest = self.retest * len(pool) / self.batch
        chosen, skipped = self._collect(pool, progress, rest)
        considered = [*chosen, *skipped]
        scores = {prompt.id: self._mean(prompt) for prompt in considered}
        names = {prompt.id: self.name(prompt, progress.step, rest) for prompt in considered}
        groups = yield from rollout(chosen, self.group)
        for group in groups:
            self._observe(group, progress.step)
        return Batch(
            groups,
            metrics={
                "select/candidates": float(len(considered)),
                "select/skipped": float(len(skipped)),
                **self._sizes(pool, progress.step, rest),
            },
            decisions=[
                Decision(prompt, True, f"pool {names[prompt.id]}", scores[prompt.id])
                for prompt in chosen
            ]
            + [Decision(prompt, False, "skipped", scores[prompt.id]) for prompt in skipped],
        )

    def name(self, prompt: Prompt, step: int, rest: float) -> str:
        """The pool of a prompt; `rest` is how many steps a mastered one waits."""
        last = self.last.get(prompt.id)
        return "unseen" if last is None else self._pool(last, step, rest)

    def _pool(self, last: Last, step: int, rest: float) -> str:
        if self.mastered and last.passed >= self.mastered and step - last.step < rest:
            return "mastered"
        return POOLS[(last.mean > self.hard) + (last.mean > self.easy)]

    def _keep(self, name: str) -> float:
        """The probability to keep a prompt of a pool."""
        weights = {"unseen": 1.0, "mastered": 0.0, **dict(zip(POOLS, self.weights, strict=True))}
        return weights[name] / max(1.0, *self.weights)

    def _collect(
        self, pool: Pool, progress: Progress, rest: float
    ) -> tuple[list[Prompt], list[Prompt]]:
        """Sample until enough prompts are kept; returns these, and the skipped ones."""
        rng = progress.rng("keep")
        chosen: list[Prompt] = []
        skipped: list[Prompt] = []
        while len(chosen) < self.batch:
            drawn = pool.sample(self.batch - len(chosen), exclude=[*chosen, *skipped])
            if not drawn:
                break
            for prompt in drawn:
                keep = self._keep(self.name(prompt, progress.step, rest))
                (chosen if rng.random() < keep else skipped).append(prompt)
        missing = self.batch - len(chosen)
        spare = [p for p in skipped if self.name(p, progress.step, rest) != "mastered"][:missing]
        taken = {prompt.id for prompt in spare}
        return chosen + spare, [prompt for prompt in skipped if prompt.id not in taken]

    def _mean(self, prompt: Prompt) -> float | None:
        last = self.last.get(prompt.id)
        return None if last is None else last.mean

    def _observe(self, group: Group, step: int) -> None:
        if group.mean is None:
            return
        before = self.last.get(group.prompt.id)
        passed = before.passed if before else 0
        whole = group.mean == 1.0 and len(group.rewards) > 1
        self.last[group.prompt.id] = Last(group.mean, passed + 1 if whole else 0, step)

    def _sizes(self, pool: Pool, step: int, rest: float) -> dict[str, float]:
        """Prompts in each pool after a step."""
        sizes = Counter(self._pool(last, step, rest) for last in self.last.values())
        sizes["unseen"] = len(pool) - len(self.last)
        return {f"select/pool_{name}": float(sizes[name]) for name in NAMES}
