"""The verl engine: rollout servers judge, agent loops roll out, the actor is trained."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from metis.core import LAST, Chat, Completion, Counts, Engine, Evidence, Group, Prompt, Sampling
from metis.core.predictors import Predictor, has_own_backbone
from metis.engines.learners import (
    Encode,
    Learner,
    PredictorInput,
    Reader,
    load_learner,
    save_learner,
)
from metis.engines.tokens.encoding import encode_chats
from metis.engines.verl.launch.checks import NO_CRITIC
from metis.engines.verl.servers.judging import Servers
from metis.engines.verl.servers.rollouts import Rollouts
from metis.engines.verl.workers.hidden_states import States
from metis.engines.verl.workers.values import ValueWorker
from metis.errors import MetisError


class VerlEngine(Engine):
    """Answers the requests of a plan; verl's trainer does the update afterwards.

    `version` is the version of the weights: the number of trained steps.
    """

    def __init__(
        self,
        servers: Servers,
        rollouts: Rollouts,
        values: ValueWorker | None,
        states: States,
        encode: Encode,
        seed: int,
    ) -> None:
        self.servers, self.rollouts, self.values = servers, rollouts, values
        self.states, self.encode, self.seed = states, encode, seed
        self.learners: dict[Predictor, Learner] = {}
        """Predictors on the policy's hidden states; they are small and trained in this process."""
        self.version = 0
        self.laps: Mapping[str, float] = {}

    def complete(self, chats: Sequence[Chat], sampling: Sampling) -> list[Completion]:
        return self.servers.complete(chats, sampling, self.version)

    def score(self, chats: Sequence[Chat], choices: Sequence[str]) -> list[list[float]]:
        return self.servers.score(chats, choices, self.version)

    def rollout(self, prompts: Sequence[Prompt], n: Counts) -> list[Group]:
        return self.rollouts.play(prompts, n, self.version)

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> list[NDArray[np.float32]]:
        asked = [x for x in prompts if isinstance(x, Prompt)]
        chats = [x for x in prompts if not isinstance(x, Prompt)]
        tokens = self.encode(asked) if asked else encode_chats(self.servers, chats)
        return list(self.states.of(tokens, depths).numpy())

    def predict(
        self, prompts: Sequence[Prompt], model: Predictor, evidence: Evidence = ()
    ) -> list[float]:
        if has_own_backbone(model):
            return self._critic().predict(prompts, model)
        return self._learner(model).predict(PredictorInput.of(prompts, evidence, self.encode))

    def fit(
        self,
        prompts: Sequence[Prompt],
        targets: Sequence[float],
        model: Predictor,
        evidence: Evidence = (),
    ) -> float:
        if has_own_backbone(model):
            return self._critic().fit(prompts, targets, model)
        return self._learner(model).fit(PredictorInput.of(prompts, evidence, self.encode), targets)

    def _critic(self) -> ValueWorker:
        if self.values is None:
            raise MetisError(NO_CRITIC)
        return self.values

    def _learner(self, model: Predictor) -> Learner:
        if model not in self.learners:
            reader = Reader(self.states.of, self.states.size, torch.device("cpu"))
            self.learners[model] = Learner(model, reader, self.seed)
        return self.learners[model]

    def save(self, folder: Path) -> None:
        for i, learner in enumerate(self.learners.values()):
            save_learner(folder, i, learner)

    def load(self, folder: Path, models: Sequence[Predictor]) -> None:
        for i, model in enumerate(models):
            load_learner(folder, i, self._learner(model))

    @property
    def processed(self) -> int:
        """Total tokens of rollout servers and of hidden states in the actor."""
        parts = (self.servers, self.rollouts, self.states)
        return sum(part.processed for part in parts)

    def clock(self) -> float:
        return time.perf_counter()
