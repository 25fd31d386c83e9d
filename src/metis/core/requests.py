"""A curriculum is a plan: a generator that asks for model work and returns the batch to train on.

This module has the requests and the protocols of curricula and engines; `values` has the data they
exchange. A curriculum never calls a model, so it reads like its paper, is tested without one, and
runs unchanged on every engine.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from metis.core.predictors import Predictor
from metis.core.values import Batch, Chat, Completion, Group, Progress, Prompt, Sampling
from metis.errors import MetisError

if TYPE_CHECKING:
    from metis.core.pool import Pool

T = TypeVar("T")
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Request(Generic[Reply]):
    """A request to the engine, answered with a `Reply`.

    method  the method of an engine that answers it, called with the request's fields
    phase   the phase of the step that its seconds and tokens count towards
    words   what it asks for, as shown to users by `Needs.described`
    """

    method: ClassVar[str] = ""
    phase: ClassVar[str] = "select"
    words: ClassVar[str] = ""

    def cost(self, reply: Reply) -> Mapping[str, int]:
        """Counters that the meter adds to those of the step once it is answered."""
        return {}


@dataclass(frozen=True, slots=True)
class Complete(Request[list[Completion]]):
    """Sample one reply to each chat."""

    chats: Sequence[Chat]
    sampling: Sampling
    method = "complete"
    phase = "judge"
    words = "sampled replies of the policy"

    def cost(self, reply: list[Completion]) -> Mapping[str, int]:
        tokens = sum(int(completion.trajectory.loss_mask.sum()) for completion in reply)
        return {"judge/asked": len(self.chats), "judge/tokens": tokens}


@dataclass(frozen=True, slots=True)
class Score(Request[list[list[float]]]):
    """Log-probability of each choice as the reply to each chat.

    Only differences between the choices of a chat count: an engine may drop a term that they
    share. A chat that exceeds the context window gets -inf for every choice.
    """

    chats: Sequence[Chat]
    choices: Sequence[str]
    method = "score"
    phase = "judge"
    words = "log-probabilities of choices"

    def cost(self, reply: list[list[float]]) -> Mapping[str, int]:
        return {"judge/asked": len(self.chats)}


Counts = int | Sequence[int]
"""Rollouts per prompt: one number for all, or one for each."""


def each_count(n: Counts, asked: Sequence[object]) -> list[int]:
    """The number of rollouts of each item, as a list."""
    return [n] * len(asked) if isinstance(n, int) else list(n)


def common_count(each: Sequence[int]) -> Counts:
    """One number if all are the same, else the list as it is."""
    return each[0] if len(set(each)) == 1 else each


@dataclass(frozen=True, slots=True)
class Rollout(Request[list[Group]]):
    """n rollouts per prompt, groups in the order of the prompts; failed rollouts are counted.

    `n` may be a list, one number for each prompt. It is an int wherever all are the same.
    """

    prompts: Sequence[Prompt]
    n: Counts
    method = "rollout"
    phase = "rollout"

    def __post_init__(self) -> None:
        each = each_count(self.n, self.prompts)
        if len(each) != len(self.prompts) or any(n < 1 for n in each):
            raise ValueError(
                f"n = {self.n!r} for {len(self.prompts)} prompts: give a number of rollouts, at "
                "least 1, or one for each prompt"
            )
        if each:
            object.__setattr__(self, "n", common_count(each))

    def cost(self, reply: list[Group]) -> Mapping[str, int]:
        lost = sum(group.failed_tokens for group in reply)
        flat = sum(group.tokens for group in reply if not group.informative)
        return {
            "rollout/generated": sum(each_count(self.n, self.prompts)),
            "rollout/failed": sum(group.failed for group in reply),
            "rollout/cut_off": sum(group.cut_off for group in reply),
            "rollout/tokens": sum(group.tokens for group in reply) + lost,
            "rollout/wasted": flat + lost,
        }


class Measure(Rollout):
    """Rollouts that only measure: their rewards are read, but they are never trained on."""

    __slots__ = ()


LAST = (1.0,)
"""Depth 1: the last layer."""

Vectors = Sequence[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Embed(Request[Vectors]):
    """The policy's hidden state at the last token of each prompt, or chat.

    `depths` are the layers to read, as fractions of the depth: 0.5 is the middle layer, 1 the last
    after the final norm. States of several layers are concatenated.
    """

    prompts: Sequence[Prompt] | Sequence[Chat]
    depths: Sequence[float] = LAST
    method = "embed"
    words = "hidden states of prompts"

    def cost(self, reply: Vectors) -> Mapping[str, int]:
        return {"select/forwards": len(self.prompts)}


Evidence = Sequence[tuple[Prompt, float]]
"""Prompts with their known outcomes, for the attention model."""


@dataclass(frozen=True, slots=True)
class Predict(Request[list[float]]):
    """A predictor's value for each prompt, given the evidence."""

    prompts: Sequence[Prompt]
    model: Predictor
    evidence: Evidence = ()
    method = "predict"

    def cost(self, reply: list[float]) -> Mapping[str, int]:
        return {"select/forwards": _read(self.prompts, self.evidence)}


@dataclass(frozen=True, slots=True)
class Fit(Request[float]):
    """Train a predictor on the targets; returns its mean loss in the first epoch."""

    prompts: Sequence[Prompt]
    targets: Sequence[float]
    model: Predictor
    evidence: Evidence = ()
    method = "fit"

    def cost(self, reply: float) -> Mapping[str, int]:
        return {"select/forwards": _read(self.prompts, self.evidence)}


def _read(prompts: Sequence[Prompt], evidence: Evidence) -> int:
    """The number of distinct prompts that a predictor reads."""
    return len({prompt.id for prompt in prompts} | {prompt.id for prompt, _ in evidence})


Plan = Generator[Request[Any], Any, T]


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


def rollout(prompts: Sequence[Prompt], n: Counts) -> Plan[list[Group]]:
    """Ask for n rollouts of each prompt; `n` may be a list, one number for each."""
    request = Rollout(prompts, n)
    return _checked((yield request) if prompts else [], request)


def measure(prompts: Sequence[Prompt], n: Counts) -> Plan[list[Group]]:
    """Ask for n rollouts of each prompt that are not trained on."""
    request = Measure(prompts, n)
    return _checked((yield request) if prompts else [], request)


def _checked(groups: list[Group], request: Rollout) -> list[Group]:
    _same_length("rollout", groups, request.prompts)
    if [group.prompt.id for group in groups] != [prompt.id for prompt in request.prompts]:
        raise RuntimeError("the engine answered Rollout with groups in another order")
    for group, n in zip(groups, each_count(request.n, request.prompts), strict=True):
        if len(group.rewards) + group.failed != n:
            raise RuntimeError(f"the engine lost count of the rollouts of {group.prompt.id!r}")
    return groups


def embed(
    prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
) -> Plan[Vectors]:
    """Ask for the policy's hidden state at the last token of each prompt, or chat."""
    vectors: Vectors = (yield Embed(prompts, depths)) if prompts else []
    _same_length("embed", vectors, prompts)
    return vectors


def predict(
    prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
) -> Plan[list[float]]:
    """Ask for a predictor's value for each prompt."""
    values: list[float] = (yield Predict(prompts, model, evidence)) if prompts else []
    _same_length("predict", values, prompts)
    return values


def fit(
    prompts: Sequence[Prompt], targets: Sequence[float], model: Predictor, evidence: Evidence = ()
) -> Plan[float]:
    """Train a predictor; returns its loss, or 0 without targets."""
    _same_length("fit", targets, prompts)
    loss: float = (yield Fit(prompts, targets, model, evidence)) if prompts else 0.0
    return loss


def _same_length(request: str, reply: Sequence[object], asked: Sequence[object]) -> None:
    if len(reply) != len(asked):
        raise RuntimeError(f"the engine answered {len(reply)} of {len(asked)} to {request!r}")


class Curriculum(Protocol):
    """Selects the prompts to train on. Settings are constructor arguments, the rest is state."""

    def step(self, pool: "Pool", progress: Progress) -> Plan[Batch]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Engine(Protocol):
    """Answers the requests of a plan.

    A subclass has the method of each request that it supports, with the request's fields as
    arguments.
    """

    @property
    def rows(self) -> int:
        """Rollouts per request: long work is asked for, and saved, in rounds of this size."""
        return 256

    def answer(self, request: Request[Reply]) -> Reply:
        method = getattr(self, request.method, None)
        if method is None:
            raise MetisError(
                f"{type(self).__name__} does not answer {type(request).__name__}: use a curriculum "
                f"that does not need it, or give the engine a method {request.method!r}"
            )
        reply: Reply = method(*(getattr(request, field.name) for field in fields(request)))
        return reply
