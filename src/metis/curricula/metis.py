"""METIS: the policy predicts which prompts are informative, trains on those, learns to predict.

Idea       Before any rollout the policy judges m*B candidates from K recent outcomes; the B it
           expects to vary most are rolled out; what happens trains both its answers and its
           judgments.
Equation   S_t = TopB v_hat(x) (Eq. 6); R_judge = 1 - (4 (v_hat - v))^2 (Eq. 8);
           L = L_policy + lambda L_judge (Eq. 10). Line numbers are those of Algorithm 1.
Acts       before rollouts
Costs      m*B short judgments a step, and their share of the update; with `readout` 2*m*B reads
Continuous the judge is scored on ranks of the variance; with preset `paper` on the variance
Reference  Zheng et al., Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning,
           arXiv 2605.11235.
Deviations from the paper. 1 to 10 hold with preset `paper` too: there the paper is silent, or not
taken to the letter. 11 to 17 are knobs of the recommended preset, which `paper` turns off:
1. The policy's loss has GRPO's token-level ratio and a mean over the tokens of a rollout; Eq. 2 has
   the ratio of whole rollouts and no mean over tokens.
2. judge.aggregate: a mean over the tokens of a judgment, so that a reply does not weigh by its
   length; `sum` is Eq. 9.
3. L_judge is a mean over the judgments of a mini-batch, where Eq. 9 has S_t. It is without prompts
   of fewer than two valid rollouts, and without questions that did not fit the context.
4. judge.max_tokens (512) and judge.temperature (1) are ours: the paper gives neither.
5. A reply that reaches the token limit is a failure even where it holds a valid box, which may
   quote the instruction. Otherwise the last balanced box counts.
6. A failure is v_hat = 0.0 in the ranking, as in the paper's appendix, and in its reward, of which
   the paper says nothing: it earns full marks on every dead prompt.
7. Candidates come in epochs, each prompt once; "sample" in Algorithm 1 may also be independent.
8. "The K most recent pairs" of a step that adds B: K values from its lowest to its highest
   variance, one draw for all candidates of a step. What is shown is not judged.
9. Equal predictions, which are most, are ordered at random; the paper does not say.
10. The words of the question are those of the printed examples; the appendix's template differs a
    little. The first step has no pairs to show, and asks as the paper's ablation K = 0 does.
11. judge: `direct` reads the distribution over the answers from log-probabilities and learns by
    cross-entropy, with offsets outside the network and a bounded gradient; see `judge.Judge`.
12. replay: outcomes of the last 8 steps are judged and trained on again. Labels are scarce, and
    cross-entropy, unlike REINFORCE, may be trained off-policy.
13. explore: a tenth of the batch is drawn uniformly, first. Feedback on the top only never corrects
    an under-prediction, and measures the judge on a flattering sample.
14. trial: a judge that is trained chooses half of the batch and the other half is uniform, until
    what it chooses varies more than the uniform half, and again when it no longer does.
15. warmup: in `reason` uniform, without judging, until a pair with v > 0 exists to show.
16. memory, anchor, order: exemplars come from the last 4 steps rather than the last one, in random
    order; the newest informative pair stays until there is a newer one.
17. failures: a reply without a prediction ranks last and scores 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from metis.core import Batch, Chat, Decision, Exemplar, Plan, Progress, Prompt, rollout
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.core.state import Stateful
from metis.curricula.judge import Judge
from metis.curricula.judge.defaults import by_judge
from metis.curricula.judge.exemplars import Kind, show
from metis.curricula.judge.experience import Experience
from metis.curricula.judge.judgment import as_read, ask, decisions, scored
from metis.curricula.judge.losses import subsample
from metis.curricula.judge.memory import Pair
from metis.curricula.judge.preference import Preference, Scores
from metis.curricula.judge.presets import PAPER, READOUT
from metis.curricula.judge.prompt import Example
from metis.curricula.judge.scale import Scale
from metis.curricula.judge.skill import length_notice, spread_notice
from metis.curricula.judge.target import Target
from metis.curricula.judge.trial import NEEDS_UNIFORM, Lift, on_trial, trial_notice
from metis.curricula.selection import Choice, choice_metrics, choose, explore_slots
from metis.errors import require, require_at_least


@dataclass
class Metis(Stateful):
    """The policy judges its own curriculum.

    batch, group  B prompts a step, n rollouts each
    multiplier    m: m*B candidates are judged, and taken in the order of `preference` (8)
    examples      K: pairs of the calibration memory shown to the judge (3; 0 to a `readout`)
    exemplars     which: values `spread` from low to high (paper) · next to the `frontier`, a mean
                  reward of 1/2 · most `similar` to the candidates
    ema           alpha of the reward baseline (0.95)
    explore       share of the batch drawn uniformly instead of chosen
    memory        steps that the calibration memory spans
    anchor        the newest informative pair stays in the memory until there is a newer one
    order         of the exemplars: `shuffled`, or `ascending` by variance (paper)
    failures      a failed judgment: `last` ranks it below all others, `zero` takes v_hat = 0
    ties          equal predictions: `random`, or the `pool`'s own shuffled order
    warmup        uniform steps until there is an informative pair to show; by default in `reason`
    replay        outcomes of the last 8 steps that are judged and trained on again; by default as
                  many as the batch, and 64 at least; none where the loss is not `log_score`
    trial         steps whose lift decides if the judge chooses alone (16); 0: no trial (`readout`)
    """

    presets: ClassVar = {"recommended": {}, "readout": READOUT, "paper": PAPER}
    batch: int = 256
    group: int = 8
    multiplier: int = 8
    examples: int = None  # type: ignore[assignment]  # these four are filled in by `by_judge`
    exemplars: Kind = "spread"
    ema: float = 0.95
    explore: float = 0.1
    memory: int = 4
    anchor: bool = True
    order: Literal["shuffled", "ascending"] = "shuffled"
    failures: Literal["last", "zero"] = "last"
    ties: Literal["random", "pool"] = "random"
    warmup: bool = None  # type: ignore[assignment]
    replay: int = None  # type: ignore[assignment]
    trial: int = None  # type: ignore[assignment]
    judge: Judge = field(default_factory=Judge)
    preference: Preference = field(default_factory=Preference)

    experience: Experience = field(init=False, default_factory=Experience)
    on_trial: bool | None = field(init=False, default=None)
    warmed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        for knob, value in by_judge(self.judge, self.batch).items():
            if getattr(self, knob) is None:
                setattr(self, knob, value)
        if self.judge.loss != "log_score":
            self.replay = 0
        require_at_least(self, {"batch": 1, "group": 2})
        least = {"multiplier": 1, "examples": 0, "memory": 1, "replay": 0, "trial": 0}
        require_at_least(self, least, "curriculum.")
        self.preference = self.preference.beside(self.judge)
        self.examples = self.preference.shown(self.judge, self.examples)
        require(0 <= self.ema < 1, "curriculum.ema", self.ema, "use a number from 0 to below 1")
        require(0 <= self.explore <= 1, "curriculum.explore", self.explore, "use a share, 0 to 1")
        require(not self.trial or self.explore > 0, "curriculum.trial", self.trial, NEEDS_UNIFORM)

    @property
    def needs(self) -> Needs:
        return self.preference.needs(self.judge.needs(self.replay))

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        self.experience.forget(progress.step, self.memory, self.trial, self.preference.window)
        if self.warmup and not self.warmed:
            return (yield from self._warm_up(pool, progress))
        notices = self._try(self.experience.lift)
        target = self._target(pool, progress)
        drawn = pool.sample(self.multiplier * self.batch)  # 3
        shown = self._exemplars(drawn, target, pool, progress)
        candidates, again, chats = self._ask_about(drawn, shown, target.scale, pool, progress)
        prompts = [*candidates, *(pool[pair.prompt] for pair in again)]
        arguments = (target.scale, self.experience.offsets, prompts, chats, progress.rng("judge"))
        verdicts = yield from ask(self.judge, *arguments)
        judged, rejudged = verdicts[: len(candidates)], verdicts[len(candidates) :]
        states = yield from self.preference.states(candidates, chats[: len(candidates)])
        readout, default = self.experience.readout, 0.0 if self.failures == "zero" else None
        scores, read = self.preference.scores(judged, default, states, readout, pool.rewards)
        judged = as_read(self.judge, judged, scores)
        choice = self._choose(scores, progress)  # 4
        chosen = sorted(choice.explored + choice.top)
        groups = yield from rollout([candidates[i] for i in chosen], self.group)  # 5
        explored = {candidates[i].id for i in choice.explored}
        new = self.experience.add(groups, explored, progress.step)  # 7: memory
        self.preference.learn(readout, states, chosen, groups, progress.step)
        target = self._target(pool, progress)
        fresh = scored([judged[i] for i in chosen], new, target)
        rows = [*fresh, *scored(rejudged, again, target, again=True)]
        judgments, metrics = self.experience.learn(  # 7: baseline
            self.judge, rows, progress.step, self.failures, self.ema
        )
        judgments = subsample(judgments, self.judge.train, progress.rng("train"))
        context = (fresh, groups, explored, progress.step, 1 / self.multiplier)
        metrics |= self.experience.diagnose(judged, *context)
        metrics |= choice_metrics(choice) | {"select/trial": float(bool(self.on_trial))} | read
        notices += length_notice(judged) + spread_notice(self.experience.flat)
        reasons = decisions(judged, scores, choice, bool(self.on_trial))
        return Batch(groups, judgments, metrics, reasons, notices, self.judge.share, shown)  # 6

    def _warm_up(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        prompts = pool.sample(self.batch)
        groups = yield from rollout(prompts, self.group)
        self.experience.add(groups, {prompt.id for prompt in prompts}, progress.step)
        self.warmed = any(group.informative for group in groups)
        decisions = [Decision(prompt, True, "warmup", propensity=1.0) for prompt in prompts]
        return Batch(groups, metrics={"select/warmup": 1.0}, decisions=decisions)

    def _try(self, lift: Lift | None) -> list[str]:
        """Begin or end the judge's trial, and say so. A single slot cannot be compared."""
        before, tried = self.on_trial, self.trial > 0 and self.batch > 1
        self.on_trial = tried and on_trial(before is not False, lift)
        return trial_notice(before, self.on_trial, lift) if tried else []

    def _target(self, pool: Pool, progress: Progress) -> Target:
        return self.experience.target(self.judge, pool.rewards, progress.step, self.memory)

    def _exemplars(
        self, drawn: Sequence[Prompt], target: Target, pool: Pool, progress: Progress
    ) -> list[Exemplar]:
        memory = self.experience.memory(progress.step, self.memory, self.anchor)
        context = (drawn, self.batch, pool, target, self.order, progress.rng("exemplars"))
        return show(self.exemplars, memory, self.examples, *context)

    def _ask_about(
        self,
        drawn: Sequence[Prompt],
        shown: Sequence[Exemplar],
        scale: Scale,
        pool: Pool,
        progress: Progress,
    ) -> tuple[list[Prompt], list[Pair], Sequence[Chat]]:
        """Candidates, outcomes to judge again, and a chat for each of both."""
        examples = [Example(each.prompt.text, each.value) for each in shown]
        texts = {example.text for example in examples}
        candidates = [prompt for prompt in drawn if prompt.text not in texts]
        texts |= {prompt.text for prompt in candidates}
        again = self.experience.again(self.replay, texts, pool, progress)
        asked = [prompt.text for prompt in candidates] + [pool[pair.prompt].text for pair in again]
        return candidates, again, self.judge.chats(asked, examples, scale)

    def _choose(self, scores: Scores, progress: Progress) -> Choice:
        slots = explore_slots(self.batch, max(self.explore, 0.5 if self.on_trial else 0.0))
        ties = progress.rng("ties") if self.ties == "random" else None
        return choose(scores, self.batch, slots, progress.rng("explore"), ties)
