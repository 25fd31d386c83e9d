"""Curricula for the tests: METIS after a first batch that is always the same, and one that asks
for everything in one step."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metis.core import (
    Batch,
    Continuation,
    Group,
    Judgment,
    Plan,
    Progress,
    Prompt,
    Sampling,
    Trajectory,
    complete,
    embed,
    fit,
    predict,
    score,
)
from metis.core.pool import Pool
from metis.core.predictors import AttentionModel, ValueModel
from metis.curricula.judges.scale import PASSES, VARIANCE, AnswerScale
from metis.curricula.metis import Metis
from metis.curricula.speed import Speed

REWARDS = [(1.0, 0.0, 0.0, 0.5), (1.0, 1.0, 1.0, 1.0), (0.25, 0.75, 0.5), (0.0, 1.0)]
VALUES = ValueModel(learning_rate=1e-3, minibatch=2)
HEADS = (ValueModel("policy", hidden=8, learning_rate=1e-2), AttentionModel(width=8, layers=1))
"""Models on the policy's own states."""
FAR = 9.0
"""The target that value models are taught: no fresh head says it by chance."""
SCORED = 4
"""Scored judgments of the fixed batch, beside two sampled ones."""
STALE = 2
"""The group that an earlier policy wrote."""
OWN = re.compile(r"select/(state_\d|head_\d|value_error|value_moved)|judge/replies")
"""Metrics of these curricula alone."""


def trajectory(seed: int, policy: int) -> Trajectory:
    draw = np.random.default_rng(seed)
    prompt, answer = draw.integers(4, 30), draw.integers(2, 9)
    tokens = draw.integers(0, 256, prompt + answer)
    mask = np.arange(prompt + answer) >= prompt
    logprobs = np.where(mask, draw.normal(-6.0, 0.2, prompt + answer), 0.0)
    return Trajectory(tokens, mask, logprobs.astype(np.float32), policy)


def fixed_batch(prompts: list[Prompt]) -> Plan[Batch]:
    """Failures, agreement, an old group, sampled judgments, and scored ones, two of them replayed.

    Ratios of scored choices are clipped in both mini-batches.
    """
    groups = [
        Group(
            prompt,
            rewards,
            tuple(trajectory(10 * i + j, -int(i == STALE)) for j in range(len(rewards))),
            failed=4 - len(rewards),
        )
        for i, (prompt, rewards) in enumerate(zip(prompts, REWARDS, strict=False))
    ]
    judgments = [
        Judgment(prompts[0], trajectory(100, 0), 0.4, weight=0.05),
        Judgment(prompts[3], trajectory(101, 0), -0.6, weight=0.1, clip=True),
    ]
    for prompt, scale, clip, key in (
        (prompts[1], VARIANCE, True, ""),
        (prompts[2], VARIANCE, True, ""),
        (prompts[0], PASSES, True, "step 1"),
        (Prompt("elsewhere", "?"), PASSES, False, "step 2"),
    ):
        judgments += yield from scored(prompt, scale, clip, key)
    return Batch(groups, judgments)


def scored(prompt: Prompt, scale: AnswerScale, clip: bool, key: str) -> Plan[list[Judgment]]:
    """A judgment with a row for each answer; their advantages add up to zero."""
    chat = [{"role": "user", "content": f"How will {prompt.id} do?"}]
    [logprobs] = yield from score([chat], scale.choices)
    values = np.random.default_rng(len(prompt.id + key)).normal(0, 0.2, len(scale.choices))
    offsets = np.linspace(-1.0, 1.0, len(scale.choices))
    columns = (scale.choices, logprobs, offsets.tolist(), (values - values.mean()).tolist())
    return [
        Judgment(prompt, Continuation(chat, text, logprob, offset), advantage, 0.3, clip, key)
        for text, logprob, offset, advantage in zip(*columns, strict=True)
    ]


def marks(states: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """Numbers by which the states of some prompts are known."""
    return {f"select/state_{i}": float(state.sum()) for i, state in enumerate(states)}


@dataclass
class Opening(Metis):
    """METIS, but the first step reads some states and trains on the fixed batch."""

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        if progress.step == 0:
            states = yield from embed(pool.prompts[:3])
            batch = yield from fixed_batch(pool.prompts[:4])
            return Batch(batch.groups, batch.judgments, marks(states))
        return (yield from super().step(pool, progress))


@dataclass
class Asking(Speed):
    """SPEED, which rolls out several times a step, with a sampled judgment for every group, and a
    value model beside it. The second step comes to nothing.
    """

    def step(self, pool: Pool, progress: Progress) -> Plan[Batch]:
        values = yield from predict(pool.prompts[:5], VALUES)
        error = yield from fit(pool.prompts[:2], [FAR] * 2, VALUES)
        yield from fit(pool.prompts[:5], [FAR] * 5, VALUES)
        again = yield from predict(pool.prompts[:5], VALUES)
        known, targets = pool.prompts[:6], [0.1, 0.9] * 3
        evidence = list(zip(pool.prompts[6:9], [0.2, 0.4, 0.9], strict=True))
        errors = []
        for head in HEADS:
            errors.append((yield from fit(known, targets, head, evidence)))
            assert len((yield from predict(known, head, evidence))) == len(known)
        batch = yield from super().step(pool, progress)
        if progress.step == 1:
            return Batch([], metrics=batch.metrics)
        chats = [[{"role": "user", "content": group.prompt.text}] for group in batch.groups]
        replies = yield from complete(chats, Sampling(max_tokens=6))
        judgments = [
            Judgment(group.prompt, reply.trajectory, 0.5, weight=0.01)
            for group, reply in zip(batch.groups, replies, strict=True)
        ]
        metrics = {
            **batch.metrics,
            **{f"select/head_{i}": error for i, error in enumerate(errors)},
            "judge/replies": float(len(replies)),
            "select/value_loss": error,
            "select/value_error": float(np.mean(np.square(np.array(values[:2]) - FAR))),
            "select/value_moved": float((np.array(again) - values).min()),
        }
        return Batch(batch.groups, judgments, metrics, batch.decisions)
