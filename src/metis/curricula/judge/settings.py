"""The knobs of self-judgment (METIS, Sec. 4.1 and appendices A.1, B.3).

Three modes: `reason` samples a reply and parses its last box (Eq. 7); `direct` reads the
distribution over the allowed answers from their log-probabilities, with nothing to decode and
nothing to fail; `readout` predicts the outcome by a regression on the policy's states.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from metis.core import Chat, Complete, Sampling, Score
from metis.core.needs import Needs
from metis.core.pool import Rewards
from metis.curricula.judge.prompt import Example, single, turns
from metis.curricula.judge.scale import PASSES, PASSES_AND_LENGTH, VARIANCE, Scale
from metis.errors import require, require_at_least

WEIGHTS = {"log_score": 1.0, "exact": 0.1, "reinforce": 0.1, "none": 0.0}
"""lambda where nothing is written, by loss; the cross-entropy relies on the bound of `share`."""


LOSSES: dict[str, Literal["log_score", "reinforce", "none"]] = {
    "direct": "log_score",
    "reason": "reinforce",
    "readout": "none",
}
"""The loss that `auto` is, by mode."""


@dataclass(frozen=True)
class Judge:
    """The knobs of self-judgment; the defaults are the recommended preset for small models.

    mode       `reason`: free text, then a box (paper) · `direct`: log-probabilities of the answers
               · `readout`: a regression on the states of a candidate and of the question about it,
               see `preference`; nothing is trained to judge, so that of the settings below it has
               layout and scale alone
    layout     `single`: one user message (paper) · `turns`: exemplars as earlier chat turns
    scale      what is asked for: the reward `variance` (paper) · `passes`, the right answers out of
               eight, one digit · `passes_length`, those and a word for the length of the answers,
               for binary rewards, not `reason`; others have the variance; `auto` is `passes`
               for `readout`, else `variance`
    loss       `log_score`: cross-entropy to a two-hot target, direct only · `reinforce` with an EMA
               baseline (Eq. 9) · `exact`: the expected score of Eq. 8, direct only, which collapses
               to one answer · `none`, readout only; `auto` is `log_score` for `direct`,
               `none` for `readout`, else `reinforce`
    reward     of an answer in `reinforce` and `exact`: `quadratic` (Eq. 8) · `masa`, MASA's
               for a pass rate, 0.01^|p_hat - p|; needs scale `passes` or `passes_length`
    offsets    of the answers' log-probabilities, outside the network, moved towards the mean
               outcome: what all prompts have in common costs no gradient; needs `log_score`
    share      the judge's gradient norm is at most this share of the policy's; 0 is no bound
    train      share of the judgments, replayed ones included, that an update trains on, drawn
               uniformly; on verl each of them carries the whole judge prompt
    baseline   where the EMA starts: `zero` (Algorithm 1) · `first_batch`, the first mean reward
    target     what a judgment is scored against: the `variance` · its `rank` in the last steps;
               `auto` is `rank` for continuous rewards, whose variances crowd near 0
    aggregate  log-probability of a judgment: `mean` over its tokens · `sum` (the letter of Eq. 9)
    ratio      `none` (paper) · `clip` the importance ratio to the policy that judged
    weight     lambda of Eq. 10; by default 0.01 (paper) for `reason`, and for `direct` 1 with
               `log_score`, else 0.1
    max_tokens   longest reply in `reason`
    temperature  of replies in `reason`
    """

    mode: Literal["reason", "direct", "readout"] = "direct"
    layout: Literal["single", "turns"] = "turns"
    scale: Literal["variance", "passes", "passes_length", "auto"] = "auto"
    loss: Literal["log_score", "reinforce", "exact", "none", "auto"] = "auto"
    reward: Literal["quadratic", "masa"] = "quadratic"
    offsets: bool = None  # type: ignore[assignment]  # filled in below, by loss
    share: float = 0.25
    train: float = 1.0
    baseline: Literal["zero", "first_batch"] = "first_batch"
    target: Literal["variance", "rank", "auto"] = "auto"
    aggregate: Literal["mean", "sum"] = "mean"
    ratio: Literal["none", "clip"] = "clip"
    weight: float = None  # type: ignore[assignment]  # filled in below, by mode and loss
    max_tokens: int = 512
    temperature: float = 1.0

    def __post_init__(self) -> None:
        direct = self.mode == "direct"
        if self.loss == "auto":
            object.__setattr__(self, "loss", LOSSES[self.mode])
        if self.mode == "reason":
            object.__setattr__(self, "scale", "variance")
        elif self.mode == "readout" and self.scale == "auto":
            object.__setattr__(self, "scale", "passes")
        if self.offsets is None:
            object.__setattr__(self, "offsets", self.loss == "log_score")
        if self.weight is None:
            written = self.mode == "reason"
            object.__setattr__(self, "weight", 0.01 if written else WEIGHTS[self.loss])
        self._require(
            (direct and self.loss != "none") or self.loss == LOSSES[self.mode],
            "loss",
            f"with curriculum.judge.mode={self.mode} use {LOSSES[self.mode]}",
        )
        self._require(
            not self.offsets or self.loss == "log_score",
            "offsets",
            "offsets need curriculum.judge.loss=log_score",
        )
        self._require(
            not self.counts or self.target != "rank",
            "target",
            "a rank is of the variance: use curriculum.judge.scale=variance",
        )
        self._require(
            self.reward == "quadratic" or (self.counts and self.loss in ("reinforce", "exact")),
            "reward",
            "it is of a pass rate: use curriculum.judge.scale=passes, and loss reinforce or exact",
        )
        self._require(
            self.weight == 0 or self.mode != "readout",
            "weight",
            "curriculum.judge.mode=readout trains nothing: leave it out",
        )
        for name in ("weight", "share"):
            value = getattr(self, name)
            self._require(math.isfinite(value) and value >= 0, name, "use 0 or more")
        self._require(0 < self.train <= 1, "train", "use a share above 0, at most 1")
        require_at_least(self, {"max_tokens": 1}, "curriculum.judge.")
        self._require(
            math.isfinite(self.temperature) and self.temperature > 0,
            "temperature",
            "use a number above 0; the judge's loss needs sampled judgments",
        )

    def _require(self, condition: bool, name: str, remedy: str) -> None:
        require(condition, f"curriculum.judge.{name}", getattr(self, name), remedy)

    @property
    def counts(self) -> bool:
        """True of a judge that is asked for passes, and so knows hard from easy."""
        return self.scale in (PASSES.name, PASSES_AND_LENGTH.name)

    @property
    def sampling(self) -> Sampling:
        return Sampling(max_tokens=self.max_tokens, temperature=self.temperature)

    def needs(self, replay: int) -> Needs:
        """The needs of a curriculum with this judge, which trains on `replay` judgments again."""
        if self.mode == "readout":
            return Needs()
        if self.mode == "reason":
            return Needs(frozenset({Complete}), replay=replay, sampling=self.temperature)
        choices = PASSES.choices if self.scale == "passes" else VARIANCE.choices
        return Needs(frozenset({Score}), choices=choices, replay=replay)

    def scale_for(self, rewards: Rewards) -> Scale:
        """The answers asked for: a count of passes says nothing of continuous rewards."""
        if not self.counts or rewards != "binary":
            return VARIANCE
        return PASSES if self.scale == PASSES.name else PASSES_AND_LENGTH

    def chats(
        self, texts: Sequence[str], examples: Sequence[Example], scale: Scale = VARIANCE
    ) -> Sequence[Chat]:
        """ctx(x) = [instruction; memory; x] for every candidate, in the layout asked for."""
        layout = single if self.layout == "single" else turns
        return layout(texts, examples, scale)
