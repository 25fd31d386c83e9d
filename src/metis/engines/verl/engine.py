"""The verl engine: rollout servers answer and judge, agent loops play, the actor learns."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from metis.core import Batch, Chat, Completion, Evidence, Group, Prompt, Sampling
from metis.engines.verl.rollouts import Rollouts
from metis.engines.verl.servers import Servers
from metis.errors import MetisError
from metis.predictors import Predictor


class VerlEngine:
    """Answers what a plan asks for; the trainer updates when the plan has come to its end.

    `policy` is the version of the weights: the steps that were trained.
    """

    def __init__(self, servers: Servers, rollouts: Rollouts) -> None:
        self.servers, self.rollouts = servers, rollouts
        self.policy = 0
        self.laps: Mapping[str, float] = {}

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        return self.servers.complete(chats, sampling, self.policy)

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        return self.servers.score(chats, choices, self.policy)

    def rollout(self, prompts: Sequence[Prompt], n: int) -> list[Group]:
        return self.rollouts.play(prompts, n, self.policy)

    def embed(self, prompts: Sequence[Prompt]) -> NoReturn:
        raise _not_here("hidden states of the policy")

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
    ) -> NoReturn:
        raise _not_here(f"a {type(model).__name__}")

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence = (),
    ) -> NoReturn:
        raise _not_here(f"a {type(model).__name__}")

    def update(self, batch: Batch) -> Mapping[str, float]:
        raise RuntimeError("on verl the trainer updates the policy, not the engine")

    @property
    def processed(self) -> int:
        """Tokens that have passed through the rollout servers."""
        return self.servers.processed + self.rollouts.processed

    def clock(self) -> float:
        return time.perf_counter()


def _not_here(what: str) -> Exception:
    return MetisError(
        f"this curriculum needs {what}, which verl's workers do not give: use engine=local, or "
        "another curriculum"
    )


def encoder(servers: Servers) -> Any:
    """How the update encodes a scored choice: as the servers did."""
    return lambda chat, text: (servers.encode_chat(chat), servers.encode_reply(text))
