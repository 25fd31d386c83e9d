"""A served model as an engine: rollouts by chat completions, hidden states by pooling."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from metis.core import (
    LAST,
    Chat,
    Complete,
    Completion,
    Counts,
    Embed,
    Engine,
    Group,
    Prompt,
    Sampling,
    Transcript,
    each_count,
)
from metis.core.requests import Vectors
from metis.core.values import Turns
from metis.engines.rewards import RewardRunner, trial_notices
from metis.errors import MetisError, located
from metis.selector.endpoint import Endpoint
from metis.tasks.base import Episode, Task
from metis.tasks.outcome import Scoring

ROWS = 64
"""Rollouts of a round, after which all are saved."""


@dataclass
class ServedModel(Engine):
    """Asks one server for rollouts and one for hidden states; rewards are computed here.

    Tokens stay at the server, so groups have rewards alone. The task has a single turn.
    """

    task: Task
    sampling: Sampling
    rewards: RewardRunner
    completions: Endpoint
    pooling: Endpoint
    notices: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return ROWS

    def rollout(self, prompts: Sequence[Prompt], n: Counts) -> list[Group]:
        self.rewards.serve(self.task)
        counts = each_count(n, prompts)
        episodes = [
            self.task.episode(prompt)
            for prompt, count in zip(prompts, counts, strict=True)
            for _ in range(count)
        ]
        asked = Complete([episode.chat for episode in episodes], self.sampling)
        played = self._scored(episodes, self.completions.answer(asked, self._chat))
        groups = [
            _group(prompt, tuple(islice(played, count)))
            for prompt, count in zip(prompts, counts, strict=True)
        ]
        if groups and not any(group.rewards for group in groups):
            raise MetisError(
                f"all {sum(counts)} rollouts of a round failed: "
                f"{groups[0].transcripts[0].failure}; fix the task first"
            )
        return groups

    def _scored(
        self, episodes: Sequence[Episode], replies: Sequence[Completion]
    ) -> Iterator[Transcript]:
        for episode, reply in zip(episodes, replies, strict=True):
            episode.reply(reply.text)
        waiting = [self.rewards.submit(episode) for episode in episodes]
        for episode, reply, reward in zip(episodes, replies, waiting, strict=True):
            said: Turns = ({"role": "assistant", "content": reply.text},)
            truncated = reply.finish == "length"
            earned = self.rewards.result(reward)
            if isinstance(earned, Scoring):
                score, report = earned.score, earned.report
                yield Transcript(episode.chat, said, score, report, truncated=truncated)
            else:
                failure = located(earned)
                yield Transcript(episode.chat, said, truncated=truncated, failure=failure)

    def embed(
        self, prompts: Sequence[Prompt] | Sequence[Chat], depths: Sequence[float] = LAST
    ) -> Vectors:
        vectors: Vectors = self.pooling.answer(Embed(prompts, depths), self._chat)
        return vectors

    def _chat(self, prompt: Prompt) -> Chat:
        return self.task.episode(prompt).chat

    def counting(self, heard: Callable[[int], object]) -> AbstractContextManager[None]:
        """Report the number of finished rollouts, whenever one finishes."""
        return self.rewards.counting(heard)

    def reseed(self, seed: int) -> None:
        """Nothing to seed: the server draws."""

    def close(self) -> None:
        """Stop the reward threads."""
        self.rewards.close()


def _group(prompt: Prompt, played: tuple[Transcript, ...]) -> Group:
    valid = [each for each in played if each.reward is not None]
    return Group(
        prompt,
        tuple(each.reward for each in valid if each.reward is not None),
        failed=len(played) - len(valid),
        cut_off=sum(each.truncated for each in valid),
        reports=tuple(each.report for each in valid),
        transcripts=played,
    )


def served(task: Task, settings: Any, model: str, urls: Mapping[str, str], key: str) -> ServedModel:
    """The model of two servers, whose rollouts are sampled as the settings of an engine say."""
    completions, pooling = (
        Endpoint(urls[name], model, key, f"--{name}") for name in ("server", "pooling")
    )
    sampling = Sampling(settings.max_tokens, settings.temperature, settings.top_p)
    notices = trial_notices(task, settings.reward_timeout)
    runner = RewardRunner(settings.reward_timeout, settings.reward_workers)
    return ServedModel(task, sampling, runner, completions, pooling, notices)
