"""The values that travel between curricula and engines: prompts, trajectories, groups, batches."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from metis import signal
from metis.errors import MetisError


class Message(TypedDict):
    """One turn of a chat, in the form every chat template accepts."""

    role: Literal["system", "user", "assistant"]
    content: str


Chat = Sequence[Message]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A problem. `text` is what a judge reads of it, not the chat the policy answers."""

    id: str
    text: str
    category: str = ""
    difficulty: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """A generated sequence as a value: it can be saved, moved and replayed.

    `tokens` holds context and answer; `loss_mask` marks what the policy wrote; `logprobs` are the
    log-probabilities under which it was written (one per token, 0 outside the mask); `policy` is
    the version of the weights that wrote it. `earlier` are the sequences of the same rollout from
    before an agent rewrote its context; they share its reward.
    """

    tokens: NDArray[np.int64]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    policy: int
    earlier: tuple["Trajectory", ...] = ()


@dataclass(frozen=True, slots=True)
class Continuation:
    """A sequence named by its text: `text` as the assistant's reply to `chat`.

    The trajectory of a scored choice. The engine that scored it knows its tokens; `logprob` is the
    log-probability it reported, the denominator of an importance ratio over the whole choice;
    `offset` is added to it before the choices of a judgment are normalised.
    """

    chat: Chat
    text: str
    logprob: float
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled reply; `finish` is "length" when the token limit cut it off."""

    text: str
    trajectory: Trajectory
    finish: Literal["stop", "length"]


ROUNDING = 1e-6
"""By how much a reward may miss [0, 1], by the error of its arithmetic: it is put at the end."""


Report = Mapping[str, float | str]
"""The report of a reward beside its score, by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The valid rollouts of one prompt; `failed` counts those that gave no reward.

    `failed_tokens` are what the policy wrote in those, as far as the engine knows; `cut_off` counts
    valid ones that came to the limit of their length. `reports` has one for each valid rollout, or
    none at all.
    """

    prompt: Prompt
    rewards: tuple[float, ...]
    trajectories: tuple[Trajectory, ...]
    failed: int = 0
    failed_tokens: int = 0
    cut_off: int = 0
    reports: tuple[Report, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rewards", tuple(map(_rounded, self.rewards)))
        for reward in self.rewards:
            if not (math.isfinite(reward) and 0.0 <= reward <= 1.0):
                raise MetisError(
                    f"reward of prompt {self.prompt.id!r} = {reward!r}: rewards must be numbers in "
                    "[0, 1]; rescale the task's reward, or raise in it to mark the rollout failed"
                )
        if len(self.trajectories) != len(self.rewards):
            raise ValueError(
                f"prompt {self.prompt.id!r} has {len(self.rewards)} rewards "
                f"but {len(self.trajectories)} trajectories"
            )
        if not any(self.reports):
            object.__setattr__(self, "reports", ())
        elif len(self.reports) != len(self.rewards):
            raise ValueError(
                f"prompt {self.prompt.id!r} has {len(self.rewards)} rewards "
                f"but {len(self.reports)} reports"
            )

    def __add__(self, other: "Group") -> "Group":
        """The rollouts of both: one group of the same prompt, drawn in two goes."""
        if other.prompt.id != self.prompt.id:
            raise ValueError(f"groups of {self.prompt.id!r} and {other.prompt.id!r} do not add up")
        return Group(
            self.prompt,
            self.rewards + other.rewards,
            self.trajectories + other.trajectories,
            self.failed + other.failed,
            self.failed_tokens + other.failed_tokens,
            self.cut_off + other.cut_off,
            self._all_reports + other._all_reports,
        )

    @property
    def _all_reports(self) -> tuple[Report, ...]:
        return self.reports or ({},) * len(self.rewards)

    @property
    def tokens(self) -> int:
        """Tokens that the policy wrote in the valid rollouts."""
        return sum(int(trajectory.loss_mask.sum()) for trajectory in self.trajectories)

    @property
    def mean(self) -> float | None:
        """Mean reward; None when every rollout failed."""
        return float(np.mean(self.rewards)) if self.rewards else None

    @property
    def variance(self) -> float | None:
        """Eq. 3; None below two valid rollouts, where it is undefined."""
        return signal.variance(self.rewards) if len(self.rewards) > 1 else None

    @property
    def informative(self) -> bool:
        """True where the rollouts disagree, so that the group has a gradient."""
        return self.teaches(signal.INFORMATIVE)

    def teaches(self, delta: float) -> bool:
        """True where the rollouts disagree by more than delta: v > delta."""
        return self.variance is not None and self.variance > delta


def _rounded(reward: float) -> float:
    nearest = min(max(reward, 0.0), 1.0)
    return nearest if abs(reward - nearest) <= ROUNDING else reward


@dataclass(frozen=True, slots=True)
class Judgment:
    """One row of the judge's loss: -weight * advantage * log pi(trajectory).

    `advantage` and `weight` are constants to the gradient; `weight` carries lambda and the
    normalisation by length. With `clip`, the engine bounds the importance ratio to the policy that
    judged, as it does for rollouts. Rows of one prompt and one `key` are one judgment: without a
    key it is this step's, in the mini-batch of its prompt's group; others are dealt evenly.
    `temperature` is the one a reply was sampled at, and its log-probabilities are taken at.
    """

    prompt: Prompt
    trajectory: Trajectory | Continuation
    advantage: float
    weight: float = 1.0
    clip: bool = False
    key: str = ""
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision to roll out a candidate or not, with its reason: one line of `judgments.jsonl`.

    `score` is None where there is no usable prediction, and `failure` then names why.
    `propensity` is the probability with which the candidate was to be chosen, given the scores.
    `distribution` holds the probabilities of the answers that a judge may give.
    """

    prompt: Prompt
    chosen: bool
    reason: str
    score: float | None = None
    failure: str | None = None
    propensity: float | None = None
    reply: str | None = None
    distribution: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An outcome that a judge was shown, and as what: one line of `exemplars.jsonl`."""

    prompt: Prompt
    value: float
    variance: float
    step: int
    """That the outcome is of, counted as in the logs."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a plan. No groups means no update, though its cost still counts."""

    groups: Sequence[Group]
    judgments: Sequence[Judgment] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()
    notices: Sequence[str] = ()
    """Sentences for the person who watches the run."""
    judge_share: float = 0.0
    """The gradient norm of the judgments is at most this share of the policy's; 0 is no bound."""
    exemplars: Sequence[Exemplar] = ()
    """The exemplars of every judge prompt of the step, in their order."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling of a `Complete` request."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of training when a step is planned."""

    step: int
    """Steps taken before this one."""
    fraction: float = 0.0
    """Share of the budget (steps, tokens or seconds) that is spent, for schedules."""
    policy: int = 0
    """Version of the weights: updates made so far."""
    seed: int = 0

    def rng(self, purpose: str) -> random.Random:
        """A generator fixed by seed, step and purpose: nothing to save, nothing to drift."""
        return random.Random(f"{self.seed}/{self.step}/{purpose}")
