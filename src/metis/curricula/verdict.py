"""A judgment from asking to training: the plan that asks, and its rows in the judge's loss.

METIS, Eq. 8 and 9. `reason` gives one REINFORCE row a judgment. In `direct` the loss is exact: the
gradient of the expected cost sum_g P_g c_g is sum_g P_g (c_g - c_mean) grad log p_g, so each of the
eleven values is one row with a constant advantage P_g (R_g - R_mean), and nothing is sampled.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import (
    Chat,
    Completion,
    Continuation,
    Decision,
    Judgment,
    Plan,
    Prompt,
    complete,
    score,
)
from metis.curricula.judge import Failure, Judge, parse
from metis.curricula.judge_prompt import CHOICES, GRID
from metis.curricula.selection import Choice
from metis.signal import judge_reward, softmax


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the policy said of one candidate; `v_hat` is None when it said nothing usable."""

    prompt: Prompt
    chat: Chat
    v_hat: float | None
    failure: Failure | None = None
    completion: Completion | None = None
    likeliest: float | None = None
    """The single value the judge would name."""
    logprobs: tuple[float, ...] = ()
    """Of the values of GRID, in `direct` mode."""
    distribution: NDArray[np.float64] | None = None
    """The same as probabilities that add up to one."""
    sampled: int | None = None
    """Position in GRID of the value drawn for REINFORCE in `direct` mode."""


class Scored(NamedTuple):
    """A verdict beside what happened: v, and the target it is scored against."""

    verdict: Verdict
    v: float
    target: float
    explored: bool


def ask(
    judge: Judge, prompts: Sequence[Prompt], chats: Sequence[Chat], rng: random.Random
) -> Plan[list[Verdict]]:
    """Algorithm 1, line 3: predict v_hat for every candidate."""
    if judge.mode == "reason":
        completions = yield from complete(chats, judge.sampling)
        return [_read(*item) for item in zip(prompts, chats, completions, strict=True)]
    rows = yield from score(chats, CHOICES)
    return list(_weigh(judge, prompts, chats, rows, rng))


def _weigh(
    judge: Judge,
    prompts: Sequence[Prompt],
    chats: Sequence[Chat],
    rows: Sequence[Sequence[float]],
    rng: random.Random,
) -> Iterator[Verdict]:
    """The expected value over the choices; log-probabilities that are none give no prediction."""
    table = np.array(rows, dtype=np.float64).reshape(-1, len(GRID))
    highest = table.max(axis=1)
    distributions = softmax(np.where(np.isfinite(highest)[:, None], table, 0.0))
    expected = (distributions @ np.array(GRID)).tolist()
    for i, (prompt, chat) in enumerate(zip(prompts, chats, strict=True)):
        if not math.isfinite(highest[i]):
            unasked = highest[i] == -math.inf
            failure = Failure.DOES_NOT_FIT if unasked else Failure.NOT_A_NUMBER
            yield Verdict(prompt, chat, None, failure)
            continue
        row, sampled = distributions[i], None
        if judge.loss == "reinforce":
            sampled = rng.choices(range(len(GRID)), weights=row.tolist())[0]
        yield Verdict(
            prompt,
            chat,
            expected[i],
            likeliest=GRID[int(row.argmax())],
            logprobs=tuple(rows[i]),
            distribution=row,
            sampled=sampled,
        )


def _read(prompt: Prompt, chat: Chat, completion: Completion) -> Verdict:
    asked = bool(completion.trajectory.loss_mask.any())
    result = parse(completion) if asked else Failure.DOES_NOT_FIT
    if isinstance(result, Failure):
        return Verdict(prompt, chat, None, failure=result, completion=completion)
    return Verdict(prompt, chat, result, completion=completion, likeliest=result)


def learn(
    judge: Judge, scored: Sequence[Scored], baseline: float | None, failures: str
) -> tuple[list[Judgment], dict[str, float]]:
    """The rows of L_judge for verdicts and their targets, and the rewards they earned.

    `baseline` is None before the first batch. With failures = "zero", as the paper's appendix has
    it, a failure is a prediction of 0; otherwise it scores 0, the worst, and its advantage is
    bounded by a standard deviation (of 0.1 at least) so that failures do not dominate the step.
    There is nothing to learn from a question that was too long to be asked.
    """
    scored = [item for item in scored if item.verdict.failure is not Failure.DOES_NOT_FIT]
    if not scored:
        return [], {}
    rewards = [_reward(item.verdict, item.target, failures) for item in scored]
    mean, spread = float(np.mean(rewards)), max(float(np.std(rewards)), 0.1)
    if baseline is None:
        baseline = 0.0 if judge.baseline == "zero" else mean
    judgments: list[Judgment] = []
    for item, reward in zip(scored, rewards, strict=True):
        advantage = reward - baseline
        if item.verdict.failure is not None and failures == "last":
            advantage = max(advantage, -spread)
        judgments += _rows(judge, item.verdict, item.target, reward, advantage)
    return judgments, {"judge/reward": mean, "judge/baseline": baseline}


def _reward(verdict: Verdict, target: float, failures: str) -> float:
    """R_judge (Eq. 8), expected over the values in `direct`."""
    if verdict.sampled is not None:
        return judge_reward(GRID[verdict.sampled], target)
    if verdict.distribution is not None:
        return float(verdict.distribution @ _rewards(target))
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
    distribution = verdict.distribution
    if distribution is None:
        return []
    if verdict.sampled is None:
        advantages = distribution * (_rewards(target) - reward)
    else:  # grad log q of the drawn value, q being the choices' probabilities normalised
        advantages = advantage * (np.eye(len(GRID))[verdict.sampled] - distribution)
    return [
        Judgment(
            verdict.prompt,
            Continuation(verdict.chat, CHOICES[i], verdict.logprobs[i]),
            value,
            weight,
            clip,
        )
        for i, value in enumerate(advantages.tolist())
    ]


def _rewards(target: float) -> NDArray[np.float64]:
    return 1.0 - np.square(4.0 * (np.array(GRID) - target))


def decisions(verdicts: Sequence[Verdict], choice: Choice, guarded: bool) -> list[Decision]:
    """What was thought of each candidate, and why it was, or was not, rolled out."""
    reasons = dict.fromkeys(choice.explored, "guard" if guarded else "explore")
    reasons |= dict.fromkeys(choice.top, "top")
    return [
        Decision(
            verdict.prompt,
            chosen=i in reasons,
            reason=reasons.get(i, "passed over"),
            score=verdict.v_hat,
            failure=verdict.failure,
            propensity=choice.propensities[i],
            reply=verdict.completion.text if verdict.completion else None,
        )
        for i, verdict in enumerate(verdicts)
    ]
