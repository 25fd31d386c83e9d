"""The interface of a judge: it predicts before the rollouts, and learns from their outcomes.

METIS asks a judge for predictions, trains on the candidates with the highest scores, and passes it
their outcomes. Your own judge is a class with `predict`; the rest has defaults
(docs/developers/adding-a-judge.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from metis.core import Exemplar, Group, Judgment, Plan, Progress, Prompt
from metis.core.needs import Needs
from metis.core.pool import Pool
from metis.errors import MetisError

SECTION = "curriculum.judge."
"""The section of a judge's settings."""


class Failure(StrEnum):
    """Why a judge has no prediction for a candidate."""

    NO_BOX = "no box"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "out of range"
    CUT_OFF = "cut off"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A judge's prediction for one candidate.

    v_hat         predicted variance of its rewards; None without a prediction
    score         candidates are ranked by it, the highest first; None ranks last
    reply         the judge's reply, if it wrote one
    distribution  probabilities of the possible answers, by answer
    pass_rate     predicted mean reward, of a judge that predicts it
    """

    prompt: Prompt
    v_hat: float | None
    score: float | None
    failure: Failure | None = None
    reply: str | None = None
    distribution: Mapping[str, float] | None = None
    pass_rate: float | None = None


@dataclass(frozen=True)
class Predictions:
    """The predictions of a step; a judge's subclass adds what its `learn` needs.

    candidates  a prediction for each candidate, except those used as exemplars
    shown       the exemplars of the judge prompts, in order
    metrics     added to those of the step
    """

    candidates: Sequence[Prediction]
    shown: Sequence[Exemplar] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Lesson:
    """What a judge trains on after a step.

    judgments       rows of its loss
    metrics         added to those of the step
    gradient_share  bound on their gradient norm, as a share of the policy's; 0 is no bound
    targets         targets of the predictions by prompt id, where they are not the variance
    """

    judgments: Sequence[Judgment] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    gradient_share: float = 0.0
    targets: Mapping[str, float] = field(default_factory=dict)


P = TypeVar("P", bound=Predictions)


@runtime_checkable
class Judge(Protocol[P]):
    """Predicts the reward variance of prompts, and learns from the outcomes."""

    trial: ClassVar[int] = 16
    """Default number of steps of the trial; 0 means no trial."""

    def needs(self, batch: int) -> Needs:
        """Its requests to the engine, for batches of this size."""
        return Needs()

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[P]:
        """Algorithm 1, line 3: predict v_hat of each candidate.

        `batch` of them will be rolled out, so at least as many candidates must be returned.
        """
        ...

    def learn(
        self, predictions: P, groups: Sequence[Group], pool: Pool, progress: Progress
    ) -> Lesson:
        """Algorithm 1, line 7: learn from the outcomes of the candidates that were rolled out."""
        return Lesson()


def require_usable(
    judge: Judge[Any], predictions: object, candidates: Sequence[Prompt], batch: int
) -> None:
    """Refuse predictions that cannot be chosen from; the message names the judge."""
    said = f"{type(judge).__name__}.predict returned"
    if not isinstance(predictions, Predictions):
        raise MetisError(f"{said} {predictions!r}: return Predictions")
    known, prompts = {prompt.id for prompt in candidates}, predictions.candidates
    ids = [each.prompt.id for each in prompts]
    if len(set(ids)) < len(ids) or not known.issuperset(ids):
        raise MetisError(f"{said} a prompt twice, or one that is no candidate")
    if len(ids) < min(batch, len(candidates)):
        raise MetisError(f"{said} {len(ids)} predictions: a batch has {batch} prompts")
    if any(each.score is not None and math.isnan(each.score) for each in prompts):
        raise MetisError(f"{said} a score that is no number: use None, which ranks last")
