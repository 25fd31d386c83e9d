"""A curriculum is a plan: a generator that asks for model work and returns the batch to train on.

The requests a plan may make, and what curricula and engines have to offer; `values` holds what
travels between them. A curriculum never calls a model, so it reads like its paper, is tested
without one, and runs unchanged on every engine.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from metis.core.predictors import Predictor
from metis.core.values import Batch, Chat, Completion, Group, Progress, Prompt, Sampling

if TYPE_CHECKING:
    from metis.core.pool import Pool

T = TypeVar("T")


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
    """Log-probability of each choice as the reply to each chat -> list[list[float]].

    They are compared among the choices of a chat: an engine may leave out a term that all of them
    have in common. A chat that does not fit the model's context gets -inf for all of them.
    """

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


LAST = (1.0,)
"""The depth of the last layer."""


@dataclass(frozen=True, slots=True)
class Embed:
    """The policy's own hidden state at the end of each prompt, or chat -> one vector each.

    `depths` are the layers to read, as shares of the network: 0.5 is the middle one, 1 the last,
    after its norm. The states of several are put one after the other.
    """

    prompts: Sequence[Prompt] | Sequence[Chat]
    depths: Sequence[float] = LAST

    def ask(self, engine: "Engine") -> Any:
        return engine.embed(self.prompts, self.depths)


Evidence = Sequence[tuple[Prompt, float]]
"""Prompts and what came of them, for a model that attends to it."""


@dataclass(frozen=True, slots=True)
class Predict:
    """The predictions of a learned model for each prompt, given the evidence -> list[float]."""

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


Request = Complete | Score | Rollout | Embed | Predict | Fit
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


def _checked(groups: list[Group], request: Rollout) -> list[Group]:
    _same_length("rollout", groups, request.prompts)
    if [group.prompt.id for group in groups] != [prompt.id for prompt in request.prompts]:
        raise RuntimeError("the engine answered Rollout with groups in another order")
    for group in groups:
        if len(group.rewards) + group.failed != request.n:
            raise RuntimeError(f"the engine lost count of the rollouts of {group.prompt.id!r}")
    return groups


def embed(
    prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
) -> Plan[Sequence[NDArray[np.float32]]]:
    """Ask for the policy's hidden state at the end of each prompt, or chat."""
    vectors: Sequence[NDArray[np.float32]] = (yield Embed(prompts, depths)) if prompts else []
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


def _same_length(request: str, reply: Sequence[object], asked: Sequence[object]) -> None:
    if len(reply) != len(asked):
        raise RuntimeError(f"the engine answered {len(reply)} of {len(asked)} to {request!r}")


class Curriculum(Protocol):
    """Chooses what to train on. Knobs are constructor arguments, the rest is saved state."""

    def step(self, pool: "Pool", progress: Progress) -> Plan[Batch]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Engine(Protocol):
    """A trainer: answers to every request, and the update."""

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]: ...

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]: ...

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]: ...

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> Sequence[NDArray[np.float32]]: ...

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
