"""The verl engine: rollout servers answer and judge, agent loops play, the actor learns."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from metis.core import Batch, Chat, Completion, Evidence, Group, Prompt, Sampling
from metis.engines.local.encoding import encode_scored
from metis.engines.verl.checks import NO_CRITIC, NO_STATES
from metis.engines.verl.rollouts import Rollouts
from metis.engines.verl.servers import Servers
from metis.engines.verl.values import ValueWorker
from metis.errors import MetisError
from metis.predictors import Predictor


class VerlEngine:
    """Answers what a plan asks for; the trainer updates when the plan has come to its end.

    `policy` is the version of the weights: the steps that were trained.
    """

    def __init__(
        self, servers: Servers, rollouts: Rollouts, values: ValueWorker | None = None
    ) -> None:
        self.servers, self.rollouts, self.values = servers, rollouts, values
        self.policy = 0
        self.laps: Mapping[str, float] = {}

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        return self.servers.complete(chats, sampling, self.policy)

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        return self.servers.score(chats, choices, self.policy)

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        return self.rollouts.play(prompts, n, self.policy)

    def embed(self, prompts: Sequence[Prompt]) -> NoReturn:
        raise MetisError(NO_STATES)

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
    ) -> list[float]:
        return self._values().predict(prompts, model)

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence = (),
    ) -> float:
        return self._values().fit(prompts, targets, model)

    def _values(self) -> ValueWorker:
        if self.values is None:
            raise MetisError(NO_CRITIC)
        return self.values

    def update(self, batch: Batch) -> Mapping[str, float]:
        raise RuntimeError("on verl the trainer updates the policy, not the engine")

    @property
    def processed(self) -> int:
        """Tokens that have passed through the rollout servers."""
        return self.servers.processed + self.rollouts.processed

    def clock(self) -> float:
        return time.perf_counter()


def encoder(servers: Servers) -> Any:
    """How the update encodes a scored choice: as the servers did."""
    return lambda chat, text: (encode_scored(servers, [chat])[0], servers.encode_reply(text))
