"""A judgment from asking to training: the plan that asks, and its rows in the judge's loss.

METIS, Eq. 8 and 9. `reason` gives one REINFORCE row a judgment. In `direct` the loss is exact: the
gradient of the expected cost sum_g P_g c_g is sum_g P_g (c_g - c_mean) grad log p_g, so each of the
eleven values is one row with a constant advantage P_g (R_g - R_mean), and nothing is sampled.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metis.core import Chat, Completion, Continuation, Judgment, Plan, Prompt, complete, score
from metis.curricula.judge import Failure, Judge, parse
from metis.curricula.judge_prompt import CHOICES, GRID
from metis.signal import judge_reward, softmax


@dataclass(frozen=True)
class Verdict:
    """What the policy said of one candidate; `v_hat` is None when it said nothing usable."""

    prompt: Prompt
    chat: Chat
    v_hat: float | None
    failure: Failure | None = None
    completion: Completion | None = None
    logprobs: tuple[float, ...] = ()
    sampled: int | None = None
    """Position in GRID of the value drawn for REINFORCE in `direct` mode."""


def ask(
    judge: Judge, prompts: Sequence[Prompt], chats: Sequence[Chat], rng: random.Random
) -> Plan[list[Verdict]]:
    """Algorithm 1, line 3: predict v_hat for every candidate."""
    if judge.mode == "reason":
        completions = yield from complete(chats, judge.sampling)
        return [_read(*item) for item in zip(prompts, chats, completions, strict=True)]
    rows = yield from score(chats, CHOICES)
    if not rows:
        return []
    distributions = softmax(rows)
    predictions: list[float] = (distributions @ np.array(GRID)).tolist()
    drawn: list[int | None] = [None] * len(rows)
    if judge.loss == "reinforce":
        drawn = [rng.choices(range(len(GRID)), weights=row)[0] for row in distributions.tolist()]
    return [
        Verdict(prompt, chat, v_hat, logprobs=tuple(row), sampled=sampled)
        for prompt, chat, v_hat, row, sampled in zip(
            prompts, chats, predictions, rows, drawn, strict=True
        )
    ]


def _read(prompt: Prompt, chat: Chat, completion: Completion) -> Verdict:
    result = parse(completion)
    if isinstance(result, Failure):
        return Verdict(prompt, chat, None, failure=result, completion=completion)
    return Verdict(prompt, chat, result, completion=completion)


def learn(
    judge: Judge, scored: Sequence[tuple[Verdict, float]], baseline: float | None, failures: str
) -> tuple[list[Judgment], dict[str, float]]:
    """The rows of L_judge for verdicts and their targets, and the rewards they earned.

    `baseline` is None before the first batch. With failures = "zero", as the paper's appendix has
    it, a failure is a prediction of 0; otherwise it scores 0, the worst, and its advantage is
    bounded by one standard deviation so that a few failures do not dominate the step.
    """
    rewards = [_reward(verdict, target, failures) for verdict, target in scored]
    mean, spread = float(np.mean(rewards)), float(np.std(rewards))
    if baseline is None:
        baseline = 0.0 if judge.baseline == "zero" else mean
    judgments: list[Judgment] = []
    for (verdict, target), reward in zip(scored, rewards, strict=True):
        advantage = reward - baseline
        if verdict.failure is not None and failures == "last":
            advantage = max(advantage, -spread)
        judgments += _rows(judge, verdict, target, reward, advantage)
    return judgments, {"judge/reward": mean, "judge/baseline": baseline}


def _reward(verdict: Verdict, target: float, failures: str) -> float:
    """R_judge (Eq. 8), expected over the values in `direct`."""
    if verdict.sampled is not None:
        return judge_reward(GRID[verdict.sampled], target)
    if verdict.logprobs:
        return float(softmax(verdict.logprobs) @ _rewards(target))
    if verdict.v_hat is not None:
        return judge_reward(verdict.v_hat, target)
    return judge_reward(0.0, target) if failures == "zero" else 0.0


def _rows(
    judge: Judge, verdict: Verdict, target: float, reward: float, advantage: float
) -> list[Judgment]:
    """One row for a sampled judgment, eleven for an exact one."""
    weight, clip = judge.weight, judge.ratio == "clip"
    if weight == 0:
        return []
    if verdict.completion is not None:
        trajectory = verdict.completion.trajectory
        if judge.aggregate == "mean":
            weight /= max(1, int(trajectory.loss_mask.sum()))
        return [Judgment(verdict.prompt, trajectory, advantage, weight, clip)]
    advantages = (
        {verdict.sampled: advantage}
        if verdict.sampled is not None
        else {
            i: float(a)
            for i, a in enumerate(softmax(verdict.logprobs) * (_rewards(target) - reward))
        }
    )
    return [
        Judgment(
            verdict.prompt,
            Continuation(verdict.chat, CHOICES[i], verdict.logprobs[i]),
            value,
            weight,
            clip,
        )
        for i, value in advantages.items()
    ]


def _rewards(target: float) -> NDArray[np.float64]:
    return 1.0 - np.square(4.0 * (np.array(GRID) - target))
