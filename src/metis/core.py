"""A curriculum is a plan: a generator that asks for model work and returns the batch to train on.

The values that travel (prompts, trajectories, groups, batches), the requests a plan may make, and
what curricula and engines have to offer. A curriculum never calls a model, so it reads like its
paper, is tested without one, and runs unchanged on every engine.
"""

import math
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from metis import signal
from metis.errors import MetisError
from metis.predictors import Predictor

if TYPE_CHECKING:
    from metis.pool import Pool

T = TypeVar("T")


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
    the version of the weights that wrote it.
    """

    tokens: NDArray[np.int64]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    policy: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """A sequence named by its text: `text` as the assistant's reply to `chat`.

    The trajectory of a scored choice. The engine that scored it knows its tokens; `logprob` is the
    log-probability it reported, the denominator of a ratio over the whole choice.
    """

    chat: Chat
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled reply; `finish` is "length" when the token limit cut it off."""

    text: str
    trajectory: Trajectory
    finish: Literal["stop", "length"]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The valid rollouts of one prompt; `failed` counts those that gave no reward."""

    prompt: Prompt
    rewards: tuple[float, ...]
    trajectories: tuple[Trajectory, ...]
    failed: int = 0

    def __post_init__(self) -> None:
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

    def __add__(self, other: "Group") -> "Group":
        """The rollouts of both: one group of the same prompt, drawn in two goes."""
        if other.prompt.id != self.prompt.id:
            raise ValueError(f"groups of {self.prompt.id!r} and {other.prompt.id!r} do not add up")
        return Group(
            self.prompt,
            self.rewards + other.rewards,
            self.trajectories + other.trajectories,
            self.failed + other.failed,
        )

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
        """Whether the rollouts disagree, so that the group has a gradient."""
        return (self.variance or 0.0) > signal.INFORMATIVE


@dataclass(frozen=True, slots=True)
class Judgment:
    """One row of the judge's loss: -weight * advantage * log pi(trajectory).

    `advantage` and `weight` are constants to the gradient; `weight` carries lambda and the
    normalisation by length. With `clip`, the engine bounds the ratio to the policy that judged, as
    it does for rollouts. A row belongs to the mini-batch of its prompt's group.
    """

    prompt: Prompt
    trajectory: Trajectory | Continuation
    advantage: float
    weight: float = 1.0
    clip: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a candidate was, or was not, rolled out: one line of `judgments.jsonl`.

    `score` is None where there is no usable prediction, and `failure` then names why.
    `propensity` is the probability with which the candidate was to be chosen, given the scores.
    """

    prompt: Prompt
    chosen: bool
    reason: str
    score: float | None = None
    failure: str | None = None
    propensity: float | None = None
    reply: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What a plan returns. No groups means no update, though its cost still counts."""

    groups: Sequence[Group]
    judgments: Sequence[Judgment] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()
    notices: Sequence[str] = ()
    """Sentences for the person who watches the run."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a `Complete` request samples."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands when a step is planned."""

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


# Requests: all that a curriculum can ask for.


@dataclass(frozen=True, slots=True)
class Complete:
    """Sample one reply to each chat -> list[Completion]."""

    chats: Sequence[Chat]
    sampling: Sampling

    def ask(self, engine: "Engine") -> Any:
        return engine.complete(self.chats, self.sampling)


@dataclass(frozen=True, slots=True)
class Score:
    """Log-probability of each choice as the reply to each chat -> list[list[float]]."""

    chats: Sequence[Chat]
    choices: Sequence[str]

    def ask(self, engine: "Engine") -> Any:
        return engine.score(self.chats, self.choices)


@dataclass(frozen=True, slots=True)
class Rollout:
    """n rollouts of each prompt -> list[Group], in the order asked; failures are counted."""

    prompts: Sequence[Prompt]
    n: int

    def ask(self, engine: "Engine") -> Any:
        return engine.rollout(self.prompts, self.n)


@dataclass(frozen=True, slots=True)
class Embed:
    """The policy's own hidden state of each prompt -> one vector a prompt."""

    prompts: Sequence[Prompt]

    def ask(self, engine: "Engine") -> Any:
        return engine.embed(self.prompts)


Evidence = Sequence[tuple[Prompt, float]]
"""Prompts and what came of them, for a model that attends to it."""


@dataclass(frozen=True, slots=True)
class Predict:
    """What a learned model says of each prompt, given the evidence -> list[float]."""

    prompts: Sequence[Prompt]
    model: Predictor
    evidence: Evidence = ()

    def ask(self, engine: "Engine") -> Any:
        return engine.predict(self.prompts, self.model, self.evidence)


@dataclass(frozen=True, slots=True)
class Fit:
    """Train a learned model towards the targets -> its loss on them in the first pass."""

    prompts: Sequence[Prompt]
    targets: Sequence[float]
    model: Predictor
    evidence: Evidence = ()

    def ask(self, engine: "Engine") -> Any:
        return engine.fit(self.prompts, self.targets, self.model, self.evidence)


@dataclass(frozen=True, slots=True)
class Together:
    """Several requests that may run at the same time -> a tuple of their replies."""

    requests: tuple["Request", ...]

    def __init__(self, *requests: "Request") -> None:
        object.__setattr__(self, "requests", requests)

    def ask(self, engine: "Engine") -> Any:
        return tuple(request.ask(engine) for request in self.requests)


Request = Complete | Score | Rollout | Embed | Predict | Fit | Together
Plan = Generator[Request, Any, T]


def complete(chats: Sequence[Chat], sampling: Sampling) -> Plan[list[Completion]]:
    """Ask for one reply to each chat."""
    completions: list[Completion] = (yield Complete(chats, sampling)) if chats else []
    _same_length("complete", completions, chats)
    return completions


def score(chats: Sequence[Chat], choices: Sequence[str]) -> Plan[list[list[float]]]:
    """Ask for the log-probability of each choice after each chat."""
    rows: list[list[float]] = (yield Score(chats, choices)) if chats else []
    _same_length("score", rows, chats)
    for row in rows:
        _same_length("score", row, choices)
    return rows


def rollout(prompts: Sequence[Prompt], n: int) -> Plan[list[Group]]:
    """Ask for n rollouts of each prompt."""
    request = Rollout(prompts, n)
    return _checked((yield request) if prompts else [], request)


def rollouts(*requests: Rollout) -> Plan[list[list[Group]]]:
    """Ask for rollouts of several kinds, each with its own n, that may run at the same time."""
    asked = [request for request in requests if request.prompts]
    replies = iter((yield from together(*asked)))
    return [_checked(next(replies) if request.prompts else [], request) for request in requests]


def _checked(groups: list[Group], request: Rollout) -> list[Group]:
    _same_length("rollout", groups, request.prompts)
    if [group.prompt.id for group in groups] != [prompt.id for prompt in request.prompts]:
        raise RuntimeError("the engine answered Rollout with groups in another order")
    for group in groups:
        if len(group.rewards) + group.failed != request.n:
            raise RuntimeError(f"the engine lost count of the rollouts of {group.prompt.id!r}")
    return groups


def embed(prompts: Sequence[Prompt]) -> Plan[Sequence[NDArray[np.float32]]]:
    """Ask for the policy's hidden state of each prompt."""
    vectors: Sequence[NDArray[np.float32]] = (yield Embed(prompts)) if prompts else []
    _same_length("embed", vectors, prompts)
    return vectors


def predict(
    prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
) -> Plan[list[float]]:
    """Ask a learned model about each prompt."""
    values: list[float] = (yield Predict(prompts, model, evidence)) if prompts else []
    _same_length("predict", values, prompts)
    return values


def fit(
    prompts: Sequence[Prompt], targets: Sequence[float], model: Predictor, evidence: Evidence = ()
) -> Plan[float]:
    """Train a learned model; its loss, or 0 with nothing to train on."""
    _same_length("fit", targets, prompts)
    loss: float = (yield Fit(prompts, targets, model, evidence)) if prompts else 0.0
    return loss


def together(*requests: Request) -> Plan[tuple[Any, ...]]:
    """Ask for several things that may be done at the same time."""
    replies: tuple[Any, ...] = (yield Together(*requests)) if requests else ()
    return replies


def _same_length(request: str, reply: Sequence[object], asked: Sequence[object]) -> None:
    if len(reply) != len(asked):
        raise RuntimeError(f"the engine answered {len(reply)} of {len(asked)} to {request!r}")


class Curriculum(Protocol):
    """Chooses what to train on. Knobs are constructor arguments, the rest is saved state."""

    def step(self, pool: "Pool", progress: Progress) -> Plan[Batch]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Engine(Protocol):
    """What a trainer provides: answers to every request, and the update."""

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]: ...

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]: ...

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]: ...

    def embed(self, prompts: Sequence[Prompt]) -> Sequence[NDArray[np.float32]]: ...

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence
    ) -> list[float]: ...

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence,
    ) -> float: ...

    def update(self, batch: Batch) -> Mapping[str, float]: ...
