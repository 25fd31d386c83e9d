"""Rollouts: episodes turn by turn; rewards are computed while other episodes generate."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from metis.core import (
    Counts,
    Group,
    Message,
    Prompt,
    Sampling,
    Trajectory,
    Transcript,
    common_count,
    each_count,
)
from metis.engines.local.generate.sampling import SampledReply, parts
from metis.engines.local.model.policy import Policy
from metis.engines.rewards import RewardRunner
from metis.errors import MetisError, located, place
from metis.run import notices
from metis.tasks.base import Episode, Task
from metis.tasks.outcome import Scoring

Sampler = Callable[[Sequence[list[int]], Counts, Sampling], Iterable[tuple[int, SampledReply]]]
"""Prompts' tokens, copies of each, sampling -> (index, reply) as they finish, prompt-major."""


@dataclass(eq=False)
class Play:
    """An episode in progress: its tokens so far, and the mask of the policy's own tokens.

    `limit` is the maximum number of tokens after its prompt; 0 is no limit. `spoken` are its turns
    and the environment's.
    """

    prompt: Prompt
    episode: Episode
    chat: list[Message]
    tokens: list[int]
    limit: int = 0
    mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    spoken: list[Message] = field(default_factory=list)
    stopped: bool = False
    turn: "Future[Sequence[Message] | None]" = field(init=False)
    reward: "Future[Scoring] | None" = None
    earned: Scoring | None = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.opening, self.asked = tuple(self.chat), len(self.tokens)
        self.mask, self.logprobs = [False] * self.asked, [0.0] * self.asked

    @property
    def room(self) -> int:
        """Remaining tokens of its limit."""
        return self.limit - (len(self.tokens) - self.asked) if self.limit else sys.maxsize

    @property
    def said(self) -> str:
        """The policy's last turn."""
        return self.turns[-1]

    def settle(self, rewards: RewardRunner) -> None:
        """Wait for the reward; an exception becomes the episode's error."""
        if self.reward and not self.error:
            result = rewards.result(self.reward)
            if isinstance(result, Scoring):
                self.earned = result
            else:
                self.error = result

    def add(self, tokens: Sequence[int], logprobs: Sequence[float], written: bool) -> None:
        self.tokens = [*self.tokens, *tokens]  # a new list: the sampler may still use the old one
        self.mask += [written] * len(tokens)
        self.logprobs += logprobs

    @property
    def truncated(self) -> bool:
        """True where its last turn reached a limit."""
        return bool(self.turns) and not self.stopped

    @property
    def transcript(self) -> Transcript:
        return Transcript(
            self.opening,
            tuple(self.spoken),
            self.earned.score if self.earned else None,
            self.earned.report if self.earned else {},
            sum(self.mask),
            self.truncated,
            located(self.error) if self.error else None,
        )

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
    n: Counts,
    sampling: Sampling,
    sampler: Sampler,
    rewards: RewardRunner,
    rows: int,
    version: int,
    limit: int = 0,
) -> tuple[list[Group], list[Exception]]:
    """Roll out n episodes per prompt; returns the groups, and exceptions of the task's code.

    An episode whose prompt exceeds the context window, or whose turn, reward or encoding raises,
    counts as failed and is not trained on. One that reaches `limit`, or fills the context window
    later, ends and is rewarded as it is: otherwise a policy could avoid a bad reward.
    """
    plays = play_all(policy, task, prompts, n, sampling, sampler, rewards, rows, limit)
    groups = [_group(prompt, games, version) for prompt, games in zip(prompts, plays, strict=True)]
    return groups, [game.error for games in plays for game in games if game.error is not None]


def play_all(
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    n: Counts,
    sampling: Sampling,
    sampler: Sampler,
    rewards: RewardRunner,
    rows: int,
    limit: int = 0,
) -> list[list[Play]]:
    """Roll out n episodes per prompt, each until its reward or its error."""
    rewards.serve(task)
    plays: list[list[Play]] = []
    counts = each_count(n, prompts)
    for part in parts(counts, rows):
        asked = zip(prompts[part], counts[part], strict=True)
        chunk = [_open(policy, task, prompt, count, limit) for prompt, count in asked]
        _play_chunk(policy, chunk, sampling, sampler, rewards)
        plays += chunk
    for games in plays:
        for game in games:
            game.settle(rewards)
    return plays


def _open(policy: Policy, task: Task, prompt: Prompt, n: int, limit: int) -> list[Play]:
    games: list[Play] = []
    for _ in range(n):
        episode = task.episode(prompt)
        chat = list(episode.chat)
        tokens = games[0].tokens if games and games[0].chat == chat else policy.encode_chat(chat)
        games.append(Play(prompt, episode, chat, list(tokens), limit))
    return games


def _play_chunk(
    policy: Policy,
    chunk: Sequence[Sequence[Play]],
    sampling: Sampling,
    sampler: Sampler,
    rewards: RewardRunner,
) -> None:
    """Play a chunk: the copies of a prompt share the prefill of their first turn."""
    same: list[Sequence[Play]] = []
    apart: list[Play] = []
    for games in chunk:
        longest = max(len(game.tokens) for game in games)
        if longest >= policy.context:
            for game in games:
                game.error = TooLong(
                    f"the prompt has {longest} tokens, and the context window is {policy.context}: "
                    "no room for an answer"
                )
            continue
        if all(game.tokens == games[0].tokens for game in games):
            same.append(games)
        else:
            apart += games
    together = [game for games in same for game in games]
    if same:
        copies = common_count([len(games) for games in same])
        replies = sampler([games[0].tokens for games in same], copies, sampling)
        _speak(policy, together, replies, rewards)
    if apart:
        _speak(policy, apart, sampler([game.tokens for game in apart], 1, sampling), rewards)
    going = _listen(policy, [*together, *apart], rewards)
    while going:
        longest = min(sampling.max_tokens, max(game.room for game in going))
        bounded = replace(sampling, max_tokens=longest)
        _speak(policy, going, sampler([game.tokens for game in going], 1, bounded), rewards)
        going = _listen(policy, going, rewards)


def _speak(
    policy: Policy,
    games: Sequence[Play],
    replies: Iterable[tuple[int, SampledReply]],
    rewards: RewardRunner,
) -> None:
    """Pass replies to their episodes; environments run while other replies are generated."""
    for index, reply in replies:
        game = games[index]
        game.stopped = reply.finish == "stop" and len(reply.tokens) <= game.room
        tokens, logprobs = reply.tokens[: game.room], reply.logprobs[: game.room]
        game.add(tokens, logprobs, written=True)
        game.turns.append(policy.decode(tokens))
        game.spoken.append({"role": "assistant", "content": game.said})
        game.turn = rewards.turn(partial(_turn, game, rewards))


def _turn(game: Play, rewards: RewardRunner) -> Sequence[Message] | None:
    """The environment's turn; a finished episode starts its reward."""
    messages = game.episode.reply(game.said)
    if messages is None:
        game.reward = rewards.submit(game.episode)
    elif not all(isinstance(m, Mapping) and {"role", "content"} <= m.keys() for m in messages):
        raise TypeError(f"reply gave {messages!r}, not None or messages with role and content")
    return messages


def _listen(policy: Policy, games: Sequence[Play], rewards: RewardRunner) -> list[Play]:
    """Wait for the environments' turns; returns the episodes that continue."""
    going = []
    for game in games:
        messages = rewards.wait(game.turn)
        if isinstance(messages, Exception):
            game.error = messages
        elif messages is not None:
            game.spoken += messages
            if _go_on(policy, game, messages, rewards):
                going.append(game)
    return going


def _go_on(policy: Policy, game: Play, messages: Sequence[Message], rewards: RewardRunner) -> bool:
    """Append the environment's turn; False if no tokens remain for an answer: the episode ends."""
    try:
        between = policy.encode_turn(game.chat, game.stopped, messages)
    except Exception as error:  # the chat template cannot render or encode the messages
        game.error = error
        return False
    if len(between) >= min(game.room, policy.context - len(game.tokens)):
        game.stopped = False
        game.reward = rewards.submit(game.episode)
        return False
    game.add(between, [0.0] * len(between), written=False)
    game.chat += [{"role": "assistant", "content": game.said}, *messages]
    return True


def _group(prompt: Prompt, games: Sequence[Play], version: int) -> Group:
    earned: list[Scoring] = []
    trajectories, lost = [], 0
    for game in games:
        if game.earned is not None:
            earned.append(game.earned)
            trajectories.append(game.trajectory(version))
        else:
            lost += sum(game.mask)
    return Group(
        prompt,
        tuple(each.score for each in earned),
        tuple(trajectories),
        len(games) - len(earned),
        lost,
        sum(game.truncated for game in games),
        tuple(each.report for each in earned),
        tuple(game.transcript for game in games),
    )


class TooLong(Exception):
    """The prompt exceeds the context window."""


class FailureNotices:
    """Collects a notice for the first error of each kind (type and line, or fault of a reward).

    `pending` are pending notices; the caller drains the list.
    """

    def __init__(self) -> None:
        self.kinds: set[tuple[type[Exception], Any]] = set()
        self.pending: list[str] = []

    def add(self, errors: Sequence[Exception]) -> None:
        for error in errors:
            kind = type(error), place(error) or getattr(error, "fault", None)
            if kind not in self.kinds:
                self.kinds.add(kind)
                self.pending.append(notices.failure_notice(located(error)))


def require_reward(groups: Sequence[Group], errors: Sequence[Exception]) -> None:
    """Stop the run if every rollout of a request failed in the task's code."""
    wrong = [error for error in errors if not isinstance(error, TooLong)]
    if wrong and not any(group.rewards for group in groups):
        if isinstance(wrong[0], MetisError):
            raise wrong[0]
        raise MetisError(
            f"all {sum(group.failed for group in groups)} rollouts of a step failed: "
            f"{located(wrong[0])}; fix the task, and the same command resumes from the last "
            "checkpoint"
        )
