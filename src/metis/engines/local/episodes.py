"""Rollouts: episodes played turn by turn, their rewards computed while others still generate."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from metis.core import Group, Message, Prompt, Sampling, Trajectory
from metis.engines.local.policy import Policy
from metis.engines.local.rewards import RewardRunner
from metis.engines.local.sampling import Reply
from metis.tasks.base import Episode, Task

Sampler = Callable[[Sequence[list[int]], int, Sampling], list[Reply]]
"""Token lists, copies of each, how to sample -> replies, copies of one prompt side by side."""


@dataclass(eq=False)
class Play:
    """One episode being played: its tokens so far, and which of them the policy wrote."""

    prompt: Prompt
    episode: Episode
    chat: list[Message]
    tokens: list[int]
    mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reward: "Future[float] | None" = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.mask, self.logprobs = [False] * len(self.tokens), [0.0] * len(self.tokens)

    def add(self, tokens: Sequence[int], logprobs: Sequence[float], written: bool) -> None:
        self.tokens += tokens
        self.mask += [written] * len(tokens)
        self.logprobs += logprobs

    def trajectory(self, version: int) -> Trajectory:
        return Trajectory(
            tokens=np.array(self.tokens, dtype=np.int64),
            loss_mask=np.array(self.mask, dtype=np.bool_),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            policy=version,
        )


def play(
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    n: int,
    sampling: Sampling,
    sampler: Sampler,
    rewards: RewardRunner,
    rows: int,
    version: int,
) -> tuple[list[Group], list[Exception]]:
    """n episodes of every prompt, and what went wrong in the task's code.

    One that does not fit the context, or whose reward fails, is counted as failed and trains
    nothing.
    """
    plays: list[list[Play]] = []
    for start in range(0, len(prompts), max(1, rows // n)):
        chunk = [_open(policy, task, prompt, n) for prompt in prompts[start:][: max(1, rows // n)]]
        _play_chunk(policy, chunk, sampling, sampler, rewards)
        plays += chunk
    groups = [
        _group(prompt, games, rewards, version)
        for prompt, games in zip(prompts, plays, strict=True)
    ]
    return groups, [game.error for games in plays for game in games if game.error is not None]


def _open(policy: Policy, task: Task, prompt: Prompt, n: int) -> list[Play]:
    games: list[Play] = []
    for _ in range(n):
        episode = task.episode(prompt)
        chat = list(episode.chat)
        known = games[0].tokens if games and games[0].chat == chat else policy.encode_chat(chat)
        games.append(Play(prompt, episode, chat, list(known)))
    return games


def _play_chunk(
    policy: Policy,
    chunk: Sequence[Sequence[Play]],
    sampling: Sampling,
    sampler: Sampler,
    rewards: RewardRunner,
) -> None:
    """The first turn of all copies of a prompt together, later turns each on its own."""
    same: list[Sequence[Play]] = []
    apart: list[Play] = []
    for games in chunk:
        if max(len(game.tokens) for game in games) >= policy.context:
            continue
        if all(game.tokens == games[0].tokens for game in games):
            same.append(games)
        else:
            apart += games
    going: list[Play] = []
    if same:
        replies = sampler([games[0].tokens for games in same], len(same[0]), sampling)
        together = [game for games in same for game in games]
        going += _answer(policy, together, replies, rewards)
    if apart:
        going += _answer(policy, apart, sampler([g.tokens for g in apart], 1, sampling), rewards)
    while going:
        replies = sampler([game.tokens for game in going], 1, sampling)
        going = _answer(policy, going, replies, rewards)


def _answer(
    policy: Policy, games: Sequence[Play], replies: Sequence[Reply], rewards: RewardRunner
) -> list[Play]:
    """Hand replies to their episodes; start the rewards of those that end; return the others."""
    going = []
    for game, reply in zip(games, replies, strict=True):
        game.add(reply.tokens, reply.logprobs, written=True)
        said = policy.decode(reply.tokens)
        messages = game.episode.reply(said)
        if messages is None:
            game.reward = rewards.submit(game.episode)
            continue
        between = policy.encode_turn(game.chat, reply.finish == "stop", messages)
        if len(game.tokens) + len(between) >= policy.context:
            continue  # no room for another turn: the episode cannot be finished
        game.add(between, [0.0] * len(between), written=False)
        game.chat += [{"role": "assistant", "content": said}, *messages]
        going.append(game)
    return going


def _group(prompt: Prompt, games: Sequence[Play], rewards: RewardRunner, version: int) -> Group:
    values, trajectories, lost = [], [], 0
    for game in games:
        value = rewards.result(game.reward) if game.reward else game.error
        if isinstance(value, float):
            values.append(value)
            trajectories.append(game.trajectory(version))
        else:
            game.error = value
            lost += sum(game.mask)
    return Group(prompt, tuple(values), tuple(trajectories), len(games) - len(values), lost)
