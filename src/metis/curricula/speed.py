"""SPEED: a few rollouts screen a prompt; only informative ones get the rest of the group.

Idea       The signal-to-noise ratio of a prompt's gradient is bounded by p (1 - p), so prompts that
           are all-pass or all-fail in a few rollouts are not worth a whole group.
Equation   continue x iff v over N_init rollouts > delta; S_t = the first B prompts that have all
           N_init + N_cont, first in, first out.
Acts       before and after
Costs      N_init rollouts for each prompt that is screened out
Continuous the same: v > delta
Reference  Zhang et al., SPEED-RL, arXiv 2506.09016 (withdrawn in v3); defaults of its 7B script.

Deviations
1. `group` is the number of rollouts trained on: N_cont = n - N_init, or n if the screening is not
   trained on. The authors' 4 + 20 is group=24. The phases are kept apart, so N_init = N_cont works.
2. Buffered rollouts keep the log-probabilities and version of the policy that sampled them, for the
   importance ratio; the authors' code recomputes them, which hides that they are off-policy.
3. stale: groups more than `stale` updates old are dropped and counted.
4. train: the screening rollouts of a prompt that passed are biased towards high variance (reported
   beside that of the continuation); `continuation` trains without them.
5. At the limit of rounds a short batch is trained with a notice, where the authors' code raises.
6. The buffers are saved with their trajectories, and no sampled prompt is lost. Rounds stop once
   the batch is full, so the buffers have at most 2 m B groups after a step.
7. Screening the next prompts and continuing the last ones are two requests, one after the other;
   the authors' code does both in one generation call.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from metis.core import Batch, Group, Plan, Progress, Prompt, measure, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.filtering import FULL, decided, prompts, rollout_count, shortage, too_old
from metis.errors import require, require_at_least
from metis.signal import INFORMATIVE


@dataclass
class Speed(Stateful):
    """Screens prompts with a few rollouts and continues with the informative ones.

    batch, group  B prompts a step, n rollouts of each to train on
    screen        N_init: rollouts that screen a prompt; 0 is 4, or half of a group below 8
    train         `all` rollouts of a prompt, or the unbiased `continuation` only
    multiplier    m: m*B prompts are screened in a round (4)
    rounds        maximum rounds in a step (50)
    delta         a prompt is continued when the variance of its screening is above this
    stale         groups with a rollout more than this many updates old are dropped
    """

    batch: int = 256
    group: int = 8
    screen: int = 0
    train: Literal["all", "continuation"] = "all"
    multiplier: float = 4.0
    rounds: int = 50
    delta: float = INFORMATIVE
    stale: int = 8

    waiting: list[Group] = field(init=False, default_factory=list)
    """Screenings that passed, to be continued."""
    ready: list[Group] = field(init=False, default_factory=list)
    """Complete groups, to be trained on."""
    missing: int = field(init=False, default=FULL)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        self.screen = self.screen or max(2, min(4, self.group // 2))
        require_at_least(self, {"screen": 2, "rounds": 1, "delta": 0, "stale": 0}, "curriculum.")
        key, remedy = "curriculum.multiplier", "use a number above 0"
        require(0 < self.multiplier < math.inf, key, self.multiplier, remedy)
        remedy = f"use less than group = {self.group}, or curriculum.train=continuation"
        require(self.rest > 0, "curriculum.screen", self.screen, remedy)

    @property
    def needs(self) -> Needs:
        kept = (
            "the rollouts of the screening (curriculum.train=continuation trains on none of them)"
        )
        return Needs(held=kept if self.train == "all" else "", in_turn=True)

    @property
    def rest(self) -> int:
        """N_cont: rollouts of a prompt after it has passed."""
        return self.group - self.screen if self.train == "all" else self.group

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        stale = self._drop_stale(progress.policy)
        screened: list[Group] = []
        finished: list[tuple[Group, Group]] = []
        rounds = 0
        while len(self.ready) < self.batch and rounds < self.rounds:
            taken = prompts(screened, self.waiting, self.ready)
            fresh = pool.sample(math.ceil(self.multiplier * self.batch), exclude=taken)
            if not fresh and not self.waiting:
                break
            tried = yield from self._screen(fresh)
            continued = yield from rollout(prompts(self.waiting), self.rest)
            pairs = list(zip(self.waiting, continued, strict=True))
            self.ready += [old + new if self.train == "all" else new for old, new in pairs]
            self.waiting = [group for group in tried if group.teaches(self.delta)]
            screened += tried
            finished += pairs
            rounds += 1
        groups, self.ready = self.ready[: self.batch], self.ready[self.batch :]
        progress.rng("order").shuffle(groups)  # so that mini-batches are not sorted by age
        passed = [group for group in screened if group.teaches(self.delta)]
        rejected = [group for group in screened if not group.teaches(self.delta)]
        why = f"{len(rejected)} of {len(screened)} prompts were screened out in {rounds} rounds"
        self.missing, notices = shortage(len(groups), self.batch, self.missing, why)
        untrained = [old for old, _ in finished] if self.train == "continuation" else []
        return Batch(
            groups,
            metrics={
                "select/candidates": float(len(screened)),
                "select/passed": float(len(passed)),
                "select/rounds": float(rounds),
                "select/buffered": float(len(self.waiting) + len(self.ready)),
                "select/stale": float(len(stale)),
                "select/age": _mean([age for group in groups for age in _ages(group, progress)]),
                "select/discarded": rollout_count(rejected + stale + untrained),
                **_bias(finished),
            },
            decisions=decided(passed, True, "passed") + decided(rejected, False, "screened out"),
            notices=notices,
        )

    def _screen(self, prompts: list[Prompt]) -> Plan[list[Group]]:
        ask = rollout if self.train == "all" else measure
        return (yield from ask(prompts, self.screen))

    def _drop_stale(self, policy: int) -> list[Group]:
        """Drop, and return, groups with a rollout that is too old."""
        dropped = [g for g in self.waiting + self.ready if too_old(g, policy, self.stale)]
        self.waiting = [group for group in self.waiting if group not in dropped]
        self.ready = [group for group in self.ready if group not in dropped]
        return dropped


def _ages(group: Group, progress: Progress) -> list[float]:
    return [float(progress.policy - trajectory.policy) for trajectory in group.trajectories]


def _bias(finished: list[tuple[Group, Group]]) -> dict[str, float]:
    """The variance of continued prompts in their screening and in their continuation.

    With ddof 1, unbiased in the number of rollouts, so that the difference is the selection bias.
    """
    pairs = [(old.rewards, new.rewards) for old, new in finished if len(new.rewards) > 1]
    if not pairs:
        return {}
    return {
        "select/variance_screening": _mean([float(np.var(old, ddof=1)) for old, _ in pairs]),
        "select/variance_continuation": _mean([float(np.var(new, ddof=1)) for _, new in pairs]),
    }


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else 0.0
