"""METIS: the policy predicts which prompts are informative, trains on those, learns to predict.

Idea       Before any rollout the policy judges m*B candidates from K recent outcomes; the B it
           expects to vary most are rolled out; what happens trains both its answers and its
           judgments.
Equation   S_t = TopB v_hat(x) (Eq. 6); R_judge = 1 - (4 (v_hat - v))^2 (Eq. 8);
           L = L_policy + lambda L_judge (Eq. 10). Line numbers are those of Algorithm 1.
Acts       before rollouts
Needs      nothing: the policy is its own judge
Costs      m*B short judgments a step, and their share of the update
Continuous the judge is scored on ranks of the variance
Reference  Zheng et al., Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning,
           arXiv 2605.11235.
Deviations from the paper (none with preset "paper"; each is a knob):
1. explore: a tenth of the batch is drawn uniformly, first. Feedback on the top only never corrects
   an under-prediction, and measures the judge on a flattering sample.
2. guard: selection is uniform until, and whenever, the rank correlation of predictions and
   exploration outcomes is not above 0. Only the batch itself is judged then; L_judge goes on.
3. warmup: uniform, without judging, until a pair with v > 0 exists to show.
4. memory: exemplars come from the last 4 steps rather than the last one.
5. failures: a reply without a prediction ranks last and scores 0, instead of counting as 0.0,
   which would earn full marks on every dead prompt.
6. judge: see `judge.Judge`; `direct` reads log-probabilities and has an exact loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from metis.core import Batch, Chat, Decision, Group, Judgment, Plan, Progress, Prompt, rollout
from metis.curricula.judge import Judge
from metis.curricula.judge_prompt import Example
from metis.curricula.memory import Pair, pairs, pick, quantile, recent
from metis.curricula.outcomes import (
    Outcome,
    climatology,
    guard_notice,
    length_notice,
    outcome_metrics,
    rank_skill,
    trim,
    verdict_metrics,
)
from metis.curricula.selection import Choice, choice_metrics, choose, explore_slots
from metis.curricula.verdict import Scored, Verdict, ask, decisions, learn
from metis.errors import require, require_at_least
from metis.pool import Pool
from metis.signal import VARIANCE_MAX
from metis.state import Stateful


@dataclass
class Metis(Stateful):
    """The policy judges its own curriculum.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates are judged (8)
    examples      K: pairs of the calibration memory shown to the judge (3)
    ema           alpha of the reward baseline (0.95)
    explore       share of the batch drawn uniformly instead of chosen
    memory        steps that the calibration memory spans
    failures      a failed judgment: `last` ranks it below all others, `zero` takes v_hat = 0
    ties          equal predictions: `random`, or the `pool`'s own shuffled order
    warmup        uniform steps until there is an informative pair to show
    guard         exploration outcomes that must show skill before the judge selects; 0 is off
    """

    batch: int = 256
    group: int = 8
    multiplier: int = 8
    examples: int = 3
    ema: float = 0.95
    explore: float = 0.1
    memory: int = 4
    failures: Literal["last", "zero"] = "last"
    ties: Literal["random", "pool"] = "random"
    warmup: bool = True
    guard: int = 128
    judge: Judge = field(default_factory=Judge)

    baseline: float | None = field(init=False, default=None)
    pairs: list[Pair] = field(init=False, default_factory=list)
    outcomes: list[Outcome] = field(init=False, default_factory=list)
    guarded: bool | None = field(init=False, default=None)
    warmed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        least = {"multiplier": 1, "examples": 0, "memory": 1, "guard": 0}
        require_at_least(self, least, "curriculum.")
        require(0 <= self.ema < 1, "curriculum.ema", self.ema, "use a number from 0 to below 1")
        require(0 <= self.explore <= 1, "curriculum.explore", self.explore, "use a share, 0 to 1")
        require(
            not self.guard or self.explore > 0,
            "curriculum.guard",
            self.guard,
            "the guard measures skill on exploration slots: set curriculum.explore above 0, "
            "or curriculum.guard=0",
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.pairs = [Pair(*pair) for pair in self.pairs]
        self.outcomes = [Outcome(*outcome) for outcome in self.outcomes]

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        self.pairs = recent(self.pairs, progress.step, self.memory)
        if self.warmup and not self.warmed:
            return (yield from self._warm_up(pool, progress))
        skill = rank_skill(self.outcomes, self.guard)
        guarded = self.guard > 0 and (skill or 0.0) <= 0.0
        candidates = pool.sample((1 if guarded else self.multiplier) * self.batch)  # 3
        chats = self._chats(pool, candidates, progress)
        verdicts = yield from ask(self.judge, candidates, chats, progress.rng("judge"))
        choice = self._choose(verdicts, guarded, progress)  # 4
        chosen = [candidates[i] for i in sorted(choice.explored + choice.top)]
        groups = yield from rollout(chosen, self.group)  # 5
        self.pairs += pairs(groups, progress.step)  # 7: memory
        scored = self._score(verdicts, choice, groups, pool)
        self._note_outcomes(scored, progress.step)
        judgments, metrics = self._learn(scored)  # 7: baseline
        notices = length_notice(verdicts)
        notices += guard_notice(guarded, self.guarded, skill, self.guard) if self.guard else []
        self.guarded = guarded
        metrics |= verdict_metrics(verdicts) | outcome_metrics(self.outcomes, 1 / self.multiplier)
        metrics |= choice_metrics(choice) | {"select/guarded": float(guarded)}
        reasons = decisions(verdicts, choice, guarded)
        return Batch(groups, judgments, metrics, reasons, notices)  # 6 is the engine's

    def _warm_up(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        prompts = pool.sample(self.batch)
        groups = yield from rollout(prompts, self.group)
        self.pairs += pairs(groups, progress.step)
        self.warmed = any(group.informative for group in groups)
        decisions = [Decision(prompt, True, "warmup", propensity=1.0) for prompt in prompts]
        return Batch(groups, metrics={"select/warmup": 1.0}, decisions=decisions)

    def _chats(
        self, pool: Pool, candidates: Sequence[Prompt], progress: Progress
    ) -> Sequence[Chat]:
        """One draw of exemplars a step, so that all judge prompts share their prefix."""
        avoid = {prompt.id for prompt in candidates}
        shown = pick(self.pairs, self.examples, avoid, progress.rng("exemplars"))
        examples = [Example(pool[pair.prompt].text, self._target(pair.v, pool)) for pair in shown]
        return self.judge.chats([prompt.text for prompt in candidates], examples)

    def _target(self, v: float, pool: Pool) -> float:
        """What a judgment is scored against, and what the exemplars show."""
        automatic = "rank" if pool.rewards == "continuous" else "variance"
        if (automatic if self.judge.target == "auto" else self.judge.target) == "variance":
            return v
        return VARIANCE_MAX * quantile(v, [pair.v for pair in self.pairs])

    def _choose(self, verdicts: Sequence[Verdict], guarded: bool, progress: Progress) -> Choice:
        default = 0.0 if self.failures == "zero" else None
        scores = [default if verdict.v_hat is None else verdict.v_hat for verdict in verdicts]
        slots = self.batch if guarded else explore_slots(self.batch, self.explore)
        ties = progress.rng("ties") if self.ties == "random" else None
        return choose(scores, self.batch, slots, progress.rng("explore"), ties)

    def _score(
        self, verdicts: Sequence[Verdict], choice: Choice, groups: Sequence[Group], pool: Pool
    ) -> list[Scored]:
        """The chosen verdicts beside what happened, where that is defined."""
        variances = {group.prompt.id: group.variance for group in groups}
        explored = set(choice.explored)
        return [
            Scored(verdicts[i], v, self._target(v, pool), i in explored)
            for i in sorted(choice.explored + choice.top)
            if (v := variances[verdicts[i].prompt.id]) is not None
        ]

    def _note_outcomes(self, scored: Sequence[Scored], step: int) -> None:
        reference = climatology(self.outcomes, step)
        self.outcomes += [
            Outcome(step, item.verdict.v_hat, item.v, item.target, reference)
            for item in scored
            if item.explored and item.verdict.v_hat is not None
        ]
        self.outcomes = trim(self.outcomes, max(self.guard, 128))

    def _learn(self, scored: Sequence[Scored]) -> tuple[list[Judgment], dict[str, float]]:
        """The judge's rows for this update (Eq. 9), and the baseline for the next."""
        judgments, metrics = learn(self.judge, scored, self.baseline, self.failures)
        if metrics:
            used, reward = metrics["judge/baseline"], metrics["judge/reward"]
            self.baseline = self.ema * used + (1 - self.ema) * reward
        return judgments, metrics
