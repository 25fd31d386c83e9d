"""Answers of a model: the local engine's generation, one seed a batch."""

from collections.abc import Sequence
from pathlib import Path

import torch

from metis import assets
from metis.core import Chat, Sampling
from metis.engines.local.checkpoint import load_weights
from metis.engines.local.encoding import encode_chats
from metis.engines.local.policy import Policy
from metis.engines.local.sampling import Reply, sample
from metis.engines.local.settings import Local
from metis.engines.local.starting import loading, starting_vllm
from metis.engines.local.vllm import VllmSampler, require_vllm
from metis.errors import MetisError
from metis.evals.plan import Limits, copies
from metis.evals.suite import Answer


class Answerer:
    """A model, and how it is sampled from; with a checkpoint, the model as it was then."""

    def __init__(
        self, settings: Local, checkpoint: Path | None, sampling: Sampling, limits: Limits
    ) -> None:
        self.sampling, self.limits = sampling, limits
        require_vllm(settings)
        folder = assets.model(settings.model)
        print(loading(settings.model, folder))
        self.policy = Policy(folder, settings)
        if checkpoint is not None:
            load_weights(checkpoint, self.policy)
        self.foreign = None
        if settings.generation == "vllm":
            print(starting_vllm(settings))
            self.foreign = VllmSampler(self.policy, settings)

    def encode(self, chats: Sequence[Chat]) -> list[list[int]]:
        """Chats as the tokens that `answer` takes."""
        return encode_chats(self.policy, chats)

    def answer(self, prompts: Sequence[list[int]], samples: int, seed: int) -> list[list[Answer]]:
        """`samples` answers to every prompt; to one that fills the context, empty ones."""
        generator = torch.Generator(self.policy.device).manual_seed(seed)
        answers: list[list[Answer]] = [[] for _ in prompts]
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) < self.policy.context]
        room = max(map(len, prompts)) + self.sampling.max_tokens
        for part in copies(room, samples, self.limits):
            replies = self._sample([prompts[i] for i in fits], part, generator) if fits else []
            for place, i in enumerate(fits):
                said = replies[place * part : (place + 1) * part]
                answers[i] += [self._read(reply) for reply in said]
        return [said or [Answer("", 0, "length")] * samples for said in answers]

    def _sample(
        self, prompts: list[list[int]], part: int, generator: torch.Generator
    ) -> list[Reply]:
        if self.foreign is not None:
            return self.foreign.sample(prompts, part, self.sampling, generator)
        rows = len(prompts) * part
        try:
            return sample(self.policy, prompts, part, self.sampling, generator, rows)
        except torch.cuda.OutOfMemoryError:
            raise MetisError(
                f"the GPU's memory is full: lower --tokens ({self.limits.tokens}) or --rows "
                f"({self.limits.rows})"
            ) from None

    def _read(self, reply: Reply) -> Answer:
        return Answer(self.policy.decode(reply.tokens), len(reply.tokens), reply.finish)
