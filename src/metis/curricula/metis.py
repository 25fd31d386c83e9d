"""METIS: the policy predicts which prompts are informative, trains on those, learns to predict.

Idea       Before any rollout the policy judges m*B candidates from K recent outcomes; the B with
           the highest predicted variance are rolled out; the outcomes train both its answers and
           its judgments.
Equation   S_t = TopB v_hat(x) (Eq. 6); R_judge = 1 - (4 (v_hat - v))^2 (Eq. 8);
           L = L_policy + lambda L_judge (Eq. 10). Line numbers are those of Algorithm 1.
Acts       before rollouts
Costs      m*B judgments a step, and their share of the update; `readout` m*B reads
Continuous `direct` is scored on ranks of the variance, `reason` on the variance itself
Reference  Zheng et al., Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning,
           arXiv 2605.11235.
Deviations from the paper. 1 to 10 also apply to preset `paper`, where the paper is silent or is not
followed to the letter. 11 to 17 are of the other presets and judges:
1. The policy's loss has GRPO's token-level ratio and a mean over the tokens of a rollout; Eq. 2 has
   the sequence ratio and no mean over tokens.
2. Eq. 9 has the sum of a judgment's log-probabilities; here it is the mean over its tokens, so that
   a reply's weight does not depend on its length.
3. L_judge is a mean over the judgments of a mini-batch, where Eq. 9 has S_t. It excludes prompts
   with fewer than two valid rollouts, and judge prompts that exceed the context window.
4. judge.max_tokens (512) and judge.temperature (1) are ours: the paper gives neither.
5. A truncated reply is a failure even if it has a valid box, which may quote the instruction.
   Otherwise the last balanced box counts.
6. A failure is v_hat = 0.0 in the ranking, as in the paper's appendix, and in its reward, which the
   paper does not define: it gets the full reward on every all-pass or all-fail prompt. It is logged
   with its kind and without a score.
7. Candidates come in epochs, without replacement; "sample" in Algorithm 1 may mean independently.
8. The memory of `reason` is the last step alone: "the K most recent pairs" reach further back where
   that step has fewer than K with a variance. Of the B that a step adds, K values from the lowest
   to the highest variance are shown, sampled once for all candidates. Exemplars are not judged.
9. Ties in the predictions, which are most, are broken at random; the paper does not say.
10. The words of the question are those of the printed examples; the appendix's template differs a
    little. The first step has no exemplars, and uses the prompt of the paper's ablation K = 0.
11. explore: a tenth of the batch is sampled uniformly, first. Feedback on the top alone never
    corrects an under-prediction, and measures the judge on a biased sample.
12. trial: the judge selects half of the batch and the other half is uniform, until its half has
    significantly more variance, and again when it no longer has; not of `readout` and `history`.
13. judge=direct: the distribution over the answers is computed from log-probabilities and trained
    by cross-entropy, with offsets outside the network and a bounded gradient.
14. judge.replay of `direct`: outcomes of the last 8 steps are replayed. Labels are scarce, and
    cross-entropy, unlike REINFORCE, may be trained off-policy.
15. The exemplars of `direct` come from the last 4 steps rather than the last one, in random order,
    as few-shot turns; the newest informative pair stays until there is a newer one.
16. judge=readout: a regression on hidden states predicts; the policy is not trained to judge.
17. judge=history and judge=gaussian_process: nor is it here; they are the estimators of Knapsack RL
    and of VIP.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from metis.core import Batch, Decision, Group, Plan, Progress, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judges import Direct, Judge, Lesson, Predictions
from metis.curricula.judges.protocol import require_usable
from metis.curricula.judges.skill import Skill
from metis.curricula.selection import Choice, choice_metrics, choose, decisions, explore_slots
from metis.curricula.trial import NEEDS_UNIFORM, Trial
from metis.errors import require, require_at_least


@dataclass
class Metis(Stateful):
    """Trains on the prompts with the highest predicted variance, by a judge.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates are judged (8)
    explore       share of the batch that is sampled uniformly
    trial         steps whose realised lift decides if the judge selects alone; by default 16, and 0
                  (no trial) for `readout` and `history`
    judge         `direct` · `reason` · `readout` · `history` · `gaussian_process` · your own:
                  my_file.py:Class
    """

    presets: ClassVar = {
        "recommended": {},
        "readout": {"judge": {"name": "readout"}},
        "paper": {"judge": {"name": "reason"}, "explore": 0.0, "trial": 0},
    }
    batch: int = 256
    group: int = 8
    multiplier: int = 8
    explore: float = 0.1
    trial: int | None = None
    judge: Judge[Any] = field(default_factory=Direct)

    skill: Skill = field(init=False, default_factory=Skill)
    judge_trial: Trial = field(init=False)

    def __post_init__(self) -> None:
        require_at_least(self, {"batch": 1, "group": 2})
        require_at_least(self, {"multiplier": 1}, "curriculum.")
        steps = self.judge.trial if self.trial is None else self.trial
        require(steps >= 0, "curriculum.trial", steps, "use at least 0")
        require(0 <= self.explore <= 1, "curriculum.explore", self.explore, "use a share, 0 to 1")
        require(not steps or self.explore > 0, "curriculum.trial", steps, NEEDS_UNIFORM)
        self.judge_trial = Trial(steps if self.batch > 1 else 0)

    @property
    def needs(self) -> Needs:
        return self.judge.needs(self.batch)

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        notices = self.judge_trial.decide(progress.step)
        candidates = pool.sample(self.multiplier * self.batch)  # 3
        predictions = yield from self.judge.predict(candidates, self.batch, pool, progress)  # 3
        require_usable(self.judge, predictions, candidates, self.batch)
        choice = self._choose(predictions, progress)  # 4
        chosen = [predictions.candidates[i].prompt for i in choice.positions]
        groups = yield from rollout(chosen, self.group)  # 5
        lesson = self.judge.learn(predictions, groups, pool, progress)  # 7
        return Batch(  # 6, by the engine
            groups,
            lesson.judgments,
            self._measure(predictions, choice, groups, lesson, progress.step),
            decisions=self._explain(predictions, choice),
            notices=notices + self.skill.notices(predictions.candidates),
            gradient_share=lesson.gradient_share,
            exemplars=predictions.shown,
        )

    def _choose(self, predictions: Predictions, progress: Progress) -> Choice:
        """Select uniform slots (half of the batch in a trial), then the highest scores."""
        slots = explore_slots(self.batch, self.judge_trial.uniform_part(self.explore))
        scores = [each.score for each in predictions.candidates]
        return choose(scores, self.batch, slots, progress.rng("explore"), progress.rng("ties"))

    def _measure(
        self,
        predictions: Predictions,
        choice: Choice,
        groups: Sequence[Group],
        lesson: Lesson,
        step: int,
    ) -> dict[str, float]:
        """Metrics of the judge's skill on the uniform slots, and of the selection."""
        explored = {predictions.candidates[i].prompt.id for i in choice.explored}
        selected = 1 / self.multiplier
        metrics = self.skill.add(predictions, explored, groups, lesson, step, selected)
        metrics |= choice_metrics(choice) | self.judge_trial.add(step, groups, explored)
        return {**metrics, **predictions.metrics, **lesson.metrics}

    def _explain(self, predictions: Predictions, choice: Choice) -> list[Decision]:
        """The decision on each candidate, with its prediction."""
        judged = predictions.candidates
        scores = [None if each.failure else each.score for each in judged]
        word = "trial" if self.judge_trial.on else "explore"
        lines = decisions([each.prompt for each in judged], choice, scores, word)
        return [
            replace(
                line,
                failure=of.failure,
                reply=of.reply,
                distribution=of.distribution,
                v_hat=None if of.failure else of.v_hat,
            )
            for line, of in zip(lines, judged, strict=True)
        ]
