"""Declared needs of a curriculum, checked against the engine before a run starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metis.core.predictors import AttentionModel, Predictor, has_own_backbone
from metis.core.requests import LAST, Complete, Fit, Measure, Predict, Request, Rollout, Score
from metis.core.values import Sampling
from metis.errors import MetisError


@dataclass(frozen=True)
class Needs:
    """What a curriculum may ask of the engine, besides rollouts, and of its data.

    requests  request types besides `Rollout`
    data      properties of the prompts, in words
    model     the predictor that `Predict` and `Fit` use
    choices   the answer choices that judgments are scored on and trained with
    replay    most replayed judgments per update, besides those of the batch
    sampling  sampling parameters of the judge's replies that are trained on
    depths    the layers that `Embed` reads
    held      which rollouts are kept after their rewards are known, to be trained on later, in
              words, and the setting that avoids it; empty if groups are trained on at once or never
    in_turn   steps may not overlap: each has to end before the next begins
    ragged    the number of rollouts differs from prompt to prompt
    """

    requests: frozenset[type[Request[Any]]] = frozenset()
    data: str = ""
    model: Predictor | None = None
    choices: tuple[str, ...] = ()
    replay: int = 0
    sampling: Sampling | None = None
    depths: Sequence[float] = LAST
    held: str = ""
    in_turn: bool = False
    ragged: bool = False

    @property
    def asked(self) -> frozenset[type[Request[Any]]]:
        """All request types."""
        learned = {Predict, Fit} if self.model is not None else set()
        return self.requests | learned | {Rollout, Measure}

    @property
    def trains_judge(self) -> bool:
        """True if the policy's judgments are trained on, with a loss of their own."""
        return bool(self.choices) or self.sampling is not None

    @property
    def judges(self) -> bool:
        """True if the policy judges, so that its replies or choices are trained on."""
        return bool(self.requests & {Complete, Score})

    def described(self) -> str:
        parts = [self.data, *sorted(kind.words for kind in self.requests)]
        if isinstance(self.model, AttentionModel):
            parts.append("an attention model on hidden states of prompts")
        elif self.model is not None:
            own = has_own_backbone(self.model)
            of = "with a backbone of its own" if own else "on hidden states of prompts"
            parts.append(f"a value model {of}")
        parts += ["groups of different sizes"] * self.ragged
        return "; ".join(filter(None, parts)) or "nothing"


def needs_of(curriculum: object) -> Needs:
    """The declared needs of a curriculum; only rollouts if it declares none."""
    needs = getattr(curriculum, "needs", None)
    if needs is not None and not isinstance(needs, Needs):
        kind = type(curriculum).__name__
        raise MetisError(f"{kind}.needs is {needs!r}: make it a Needs, or a property that is one")
    return needs or Needs()
