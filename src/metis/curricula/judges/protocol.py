"""The contract of a judge: predictions before the rollouts, a lesson from their outcomes.

METIS asks any judge, trains on the candidates with the highest scores, and hands it what came of
them. A judge of one's own is a class with `predict`; the rest has defaults
(docs/adding-a-judge.md).
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
"""The place of a judge's settings among those of a run."""


class Failure(StrEnum):
    """The reason that a judge has no prediction for a candidate."""

    NO_BOX = "no box"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "out of range"
    CUT_OFF = "cut off"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A judge's prediction for one candidate.

    v_hat         predicted variance of its rewards; None where there is no prediction
    score         what candidates are ranked by, the highest first; None ranks last
    reply         the judge's own words, where it wrote any
    distribution  probabilities of the answers it could have given, by answer
    """

    prompt: Prompt
    v_hat: float | None
    score: float | None
    failure: Failure | None = None
    reply: str | None = None
    distribution: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Predictions:
    """The predictions of a step; a judge adds what its `learn` needs in a class of its own.

    candidates  a prediction for each candidate, but for those that were shown as exemplars
    shown       the exemplars of the judge prompts, in their order
    """

    candidates: Sequence[Prediction]
    shown: Sequence[Exemplar] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Lesson:
    """What a judge learns from the outcomes of a step.

    judgments  rows of its loss, for the engine to train on
    share      bound of their gradient norm, as a share of the policy's; 0 is no bound
    targets    what predictions are scored against, by prompt id, where it is not the variance
    """

    judgments: Sequence[Judgment] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    share: float = 0.0
    targets: Mapping[str, float] = field(default_factory=dict)


P = TypeVar("P", bound=Predictions)


@runtime_checkable
class Judge(Protocol[P]):
    """Predicts the variance of a prompt's rewards, and learns from what came out."""

    trial: ClassVar[int] = 16
    """Steps of the trial by default; 0: it chooses from the start."""

    def needs(self, batch: int) -> Needs:
        """What it asks of an engine, for batches of this size."""
        return Needs()

    def predict(
        self, candidates: Sequence[Prompt], batch: int, pool: Pool, progress: Progress
    ) -> Plan[P]:
        """Algorithm 1, line 3: predict v_hat of each candidate.

        `batch` of them will be rolled out: the judge may leave out no more than are left over.
        """
        ...

    def learn(
        self, predictions: P, groups: Sequence[Group], pool: Pool, progress: Progress
    ) -> Lesson:
        """Algorithm 1, line 7: take up the outcomes of the candidates that were rolled out."""
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
