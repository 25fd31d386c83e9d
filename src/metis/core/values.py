"""The data that curricula and engines exchange: prompts, trajectories, groups, batches."""

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
    """One message of a chat, in the format of chat templates."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str


Chat = Sequence[Message]
Turns = Sequence[Mapping[str, object]]
"""Messages as they are kept: a curriculum may hold them in its state, whose types are checked."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A problem. `text` is what the judge reads, not the chat that the policy answers."""

    id: str
    text: str
    category: str = ""
    difficulty: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """A sampled sequence, which can be saved and replayed.

    `tokens` holds prompt and response; `loss_mask` marks the policy's own tokens; `logprobs` are
    the sampling log-probabilities (one per token, 0 outside the mask); `policy` is the version of
    the weights that sampled it. `earlier` are sequences of the same rollout from before an agent
    rewrote its context; they share its reward.
    """

    tokens: NDArray[np.int64]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    policy: int
    earlier: tuple["Trajectory", ...] = ()


@dataclass(frozen=True, slots=True)
class Continuation:
    """A scored choice: `text` as the assistant's reply to `chat`, tokenized by the engine.

    `logprob` is the log-probability that the engine reported, the denominator of an importance
    ratio over the whole choice; `offset` is added to it before the softmax over the choices of a
    judgment.
    """

    chat: Chat
    text: str
    logprob: float
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled reply; `finish` is "length" where it was truncated at the token limit."""

    text: str
    trajectory: Trajectory
    finish: Literal["stop", "length"]


ROUNDING = 1e-6
"""Tolerance for rewards outside [0, 1] by rounding error; they are clamped."""


Report = Mapping[str, float | str]
"""What a reward function reports besides its score, by name."""

UNSAVED = {"saved": False}
"""Metadata of a field that is not saved with its value."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The messages of one rollout, and its outcome.

    `asked` is the chat that the policy answered first; `said` are its turns and those of the
    environment. `reward` is None where the rollout failed, `failure` then says why. `tokens` counts
    the policy's own.
    """

    asked: Turns
    said: Turns
    reward: float | None = None
    report: Report = field(default_factory=dict)
    tokens: int = 0
    truncated: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The valid rollouts of one prompt; `failed` counts those without a reward.

    Without `trajectories` it has rewards alone, as from a trainer that keeps its own tokens.
    `failed_tokens` counts the tokens sampled in failed rollouts, as far as the engine knows;
    `cut_off` counts all rollouts that were truncated at the length limit, failed ones too.
    `reports` has one entry per valid rollout, or is empty. `transcripts` has one entry per rollout,
    failed ones too, or is empty.
    """

    prompt: Prompt
    rewards: tuple[float, ...]
    trajectories: tuple[Trajectory, ...] = ()
    failed: int = 0
    failed_tokens: int = 0
    cut_off: int = 0
    reports: tuple[Report, ...] = ()
    transcripts: tuple[Transcript, ...] = field(default=(), metadata=UNSAVED)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rewards", tuple(map(_rounded, self.rewards)))
        for reward in self.rewards:
            if not (math.isfinite(reward) and 0.0 <= reward <= 1.0):
                raise MetisError(
                    f"reward of prompt {self.prompt.id!r} = {reward!r}: rewards must be numbers in "
                    "[0, 1]; rescale the task's reward, or raise in it to mark the rollout failed"
                )
        if self.trajectories and len(self.trajectories) != len(self.rewards):
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
        """Merge two groups of the same prompt, as when it is rolled out in two phases."""
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
            self.transcripts + other.transcripts,
        )

    @property
    def _all_reports(self) -> tuple[Report, ...]:
        return self.reports or ({},) * len(self.rewards)

    @property
    def tokens(self) -> int:
        """Tokens sampled in the valid rollouts."""
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
        """True where rewards differ, so that the group has a gradient."""
        return self.teaches(signal.INFORMATIVE)

    def teaches(self, delta: float) -> bool:
        """True where the reward variance exceeds delta: v > delta."""
        return self.variance is not None and self.variance > delta


def _rounded(reward: float) -> float:
    nearest = min(max(reward, 0.0), 1.0)
    return nearest if abs(reward - nearest) <= ROUNDING else reward


@dataclass(frozen=True, slots=True)
class Judgment:
    """One row of the judge's loss: -weight * advantage * log pi(trajectory).

    `advantage` and `weight` carry no gradient; `weight` includes lambda and the length
    normalisation. With `clip`, the engine clips the importance ratio to the policy that judged, as
    for rollouts. Rows with the same prompt and `key` are one judgment: an empty key means this
    step's, which goes in the mini-batch of its prompt's group; others are spread evenly.
    `temperature` is the sampling temperature of the reply, and that of its log-probabilities.
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
    """Whether a candidate is rolled out, and why: one line of `judgments.jsonl`.

    `score` is None where there is no usable prediction; `failure` then says why. `propensity` is
    the probability that the candidate is selected, given the scores. `distribution` has the
    judge's probability of each possible answer. `v_hat` is the variance that a judge predicts,
    which its score need not be.
    """

    prompt: Prompt
    chosen: bool
    reason: str
    score: float | None = None
    failure: str | None = None
    propensity: float | None = None
    reply: str | None = None
    distribution: Mapping[str, float] | None = None
    v_hat: float | None = None


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A past outcome in the judge prompt, with the value shown: one line of `exemplars.jsonl`."""

    prompt: Prompt
    value: float
    variance: float
    step: int
    """The step of the outcome, numbered as in the logs."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a plan. Without groups there is no update, but its cost still counts."""

    groups: Sequence[Group]
    judgments: Sequence[Judgment] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()
    notices: Sequence[str] = ()
    """Messages to show to the user."""
    gradient_share: float = 0.0
    """Bound on the judge's gradient norm, as a share of the policy's; 0 is no bound."""
    exemplars: Sequence[Exemplar] = ()
    """The exemplars in the judge prompts of the step, in order."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a `Complete` request."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """Training progress when a step is planned."""

    step: int
    """Steps completed before this one."""
    fraction: float = 0.0
    """Share of the budget (steps, tokens or seconds) spent, for schedules."""
    policy: int = 0
    """Version of the policy's weights: updates so far."""
    seed: int = 0

    def rng(self, purpose: str) -> random.Random:
        """A generator seeded by seed, step and purpose, so that no generator state is saved."""
        return random.Random(f"{self.seed}/{self.step}/{purpose}")
