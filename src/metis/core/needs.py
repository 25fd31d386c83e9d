"""The needs of a curriculum, declared: compared with what an engine serves before it starts."""

from dataclasses import dataclass
from typing import Any

from metis.core.predictors import AttentionModel, Predictor, separate
from metis.core.requests import Complete, Fit, Predict, Request, Rollout, Score
from metis.core.values import Sampling


@dataclass(frozen=True)
class Needs:
    """Everything a curriculum may ask of an engine beside rollouts, and of its data.

    requests  kinds of requests, beside `Rollout`
    data      properties of the prompts, in words
    model     the model that `Predict` and `Fit` name
    choices   the choices that judgments are scored on, and trained with
    replay    judgments that are trained on again, at most, beside those of the batch
    sampling  of the replies that are trained on
    """

    requests: frozenset[type[Request[Any]]] = frozenset()
    data: str = ""
    model: Predictor | None = None
    choices: tuple[str, ...] = ()
    replay: int = 0
    sampling: Sampling | None = None

    @property
    def asked(self) -> frozenset[type[Request[Any]]]:
        """All kinds of requests."""
        learned = {Predict, Fit} if self.model is not None else set()
        return self.requests | learned | {Rollout}

    @property
    def judges(self) -> bool:
        """True if replies or choices of the policy are trained on."""
        return bool(self.requests & {Complete, Score})

    def described(self) -> str:
        parts = [self.data, *sorted(kind.words for kind in self.requests)]
        if isinstance(self.model, AttentionModel):
            parts.append("an attention model on hidden states of prompts")
        elif self.model is not None:
            own = separate(self.model)
            of = "with a backbone of its own" if own else "on hidden states of prompts"
            parts.append(f"a value model {of}")
        return "; ".join(filter(None, parts)) or "nothing"


def needs_of(curriculum: object) -> Needs:
    """The declared needs of a curriculum; rollouts alone, where it declares none."""
    needs = getattr(curriculum, "needs", None)
    return needs if isinstance(needs, Needs) else Needs()
