"""Answers of a model: episodes played with the local engine's generation, one seed a batch."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from metis.core import Chat, Prompt, Sampling
from metis.engines import model_files
from metis.engines.local.generate.sampling import OwnSampler, SampledReply, Sampler
from metis.engines.local.generate.vllm import VllmSampler, require_vllm
from metis.engines.local.model.checkpoint import load_weights
from metis.engines.local.model.policy import Policy
from metis.engines.local.rollouts import Play, play_all
from metis.engines.local.settings import LocalSettings
from metis.engines.local.starting import loading, starting_vllm
from metis.engines.rewards import RewardRunner
from metis.engines.tokens.encoding import encode_chats
from metis.errors import MetisError, located
from metis.evals.suite import Answer
from metis.run.waiting import Say
from metis.tasks.base import Task


class Answerer:
    """A model and its sampling settings; with a checkpoint, the weights of that step."""

    def __init__(
        self,
        settings: LocalSettings,
        checkpoint: Path | None,
        sampling: Sampling,
        say: Say = print,
    ) -> None:
        """`say` prints a line before slow parts."""
        self.sampling, self.limit = sampling, settings.episode_tokens
        require_vllm(settings)
        folder = model_files.model(settings.model)
        say(loading(settings.model, folder))
        self.policy = Policy(folder, settings)
        if checkpoint is not None:
            load_weights(checkpoint, self.policy)
        self.sampler: Sampler = OwnSampler(self.policy)
        if settings.generation == "vllm":
            say(starting_vllm(settings))
            self.sampler = VllmSampler(self.policy, settings)
        self.rewards = RewardRunner(settings.reward_timeout, settings.reward_workers)

    def lengths(self, chats: Sequence[Chat]) -> list[int]:
        """Tokens of every chat."""
        return [len(tokens) for tokens in encode_chats(self.policy, chats)]

    def answer(
        self, task: Task, prompts: Sequence[Prompt], parts: Sequence[int], seed: int
    ) -> list[list[Answer]]:
        """Play the episodes of every prompt, one part after the other."""
        generator = torch.Generator(self.policy.device).manual_seed(seed)
        answers: list[list[Answer]] = [[] for _ in prompts]
        for part in parts:
            rows = len(prompts) * part
            sampler = partial(self._stream, generator, rows)
            settings = (self.sampling, sampler, self.rewards, rows, self.limit)
            plays = play_all(self.policy, task, prompts, part, *settings)
            for said, games in zip(answers, plays, strict=True):
                said += map(_read, games)
        return answers

    def _stream(
        self,
        generator: torch.Generator,
        rows: int,
        prompts: Sequence[list[int]],
        copies: int,
        sampling: Sampling,
    ) -> Iterator[tuple[int, SampledReply]]:
        try:
            yield from self.sampler.sample(prompts, copies, sampling, generator)
        except torch.cuda.OutOfMemoryError:
            raise MetisError(
                f"the GPU's memory is full with {rows} answers at once: use fewer (--rows), or a "
                "smaller --tokens"
            ) from None


def _read(game: Play) -> Answer:
    turns, tokens = tuple(game.turns), sum(game.mask)
    if game.earned is None:
        assert game.error is not None
        error = located(game.error)
        return Answer(turns, tokens, "failed", 0.0, error, transcript=game.transcript)
    finish = "stop" if game.stopped else "length"
    score, report = game.earned.score, game.earned.report
    return Answer(turns, tokens, finish, score, report=report, transcript=game.transcript)
