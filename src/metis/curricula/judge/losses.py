"""The rows of L_judge for judgments and their outcomes, by loss.

`reinforce` (METIS, Eq. 9) has one row a sampled judgment. In `direct` every allowed answer is a row
with a constant advantage, which add up to zero, and nothing is sampled:

log_score  cross-entropy to the two-hot target y: y_g - P_g, the gradient of sum_g y_g log P_g
exact      the expected reward of Eq. 8: P_g (R_g - R_mean), the gradient of sum_g P_g R_g, which is
           linear in P and so ends in a single answer for all prompts
reinforce  of one answer drawn from P: (R - b) (1[g drawn] - P_g)
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from metis.core import Continuation, Judgment
from metis.curricula.judge.judgment import Scored
from metis.curricula.judge.reply import Failure
from metis.curricula.judge.reward import reward, rewards
from metis.curricula.judge.settings import Judge

Floats = NDArray[np.float64]


def learn(
    judge: Judge, scored: Sequence[Scored], baseline: float | None, failures: str
) -> tuple[list[Judgment], dict[str, float]]:
    """The rows for verdicts and their targets, and the rewards that this step's verdicts earned.

    `baseline` is None before the first batch. With failures = "zero", as the paper's appendix has
    it, a failure is a prediction of 0; otherwise it scores 0, the worst, and its advantage is
    bounded by a standard deviation (of 0.1 at least) so that failures do not dominate the step.
    There is nothing to learn from a question that was too long to be asked.
    """
    asked = [item for item in scored if item.verdict.failure is not Failure.DOES_NOT_FIT]
    scored = [item for item in asked if judge.loss != "none" or item.verdict.v_hat is not None]
    if not scored:
        return [], {}
    earned = [reward(judge, item, failures) for item in scored]
    fresh = [value for item, value in zip(scored, earned, strict=True) if not item.key]
    metrics = {"judge/reward": float(np.mean(fresh))} if fresh else {}
    if judge.loss == "none":
        return [], metrics
    if judge.loss == "log_score":
        targets = [(item, item.verdict.scale.two_hot(item.point)) for item in scored]
        rows = [row for item, target in targets for row in _log_score(judge, item, target)]
        return rows, metrics | _divergence(targets)
    mean, spread = float(np.mean(earned)), max(float(np.std(earned)), 0.1)
    if baseline is None:
        baseline = 0.0 if judge.baseline == "zero" else mean
    judgments: list[Judgment] = []
    for item, value in zip(scored, earned, strict=True):
        advantage = value - baseline
        if item.verdict.failure is not None and failures == "last":
            advantage = max(advantage, -spread)
        judgments += _rows(judge, item, value, advantage)
    return judgments, metrics | {"judge/baseline": baseline}


def _rows(judge: Judge, item: Scored, mean: float, advantage: float) -> list[Judgment]:
    """One row for a sampled reply, one an answer for a scored judgment."""
    verdict, weight = item.verdict, judge.weight
    if verdict.completion is not None:
        trajectory = verdict.completion.trajectory
        if judge.aggregate == "mean":
            weight /= max(1, int(trajectory.loss_mask.sum()))
        clip, temperature = judge.ratio == "clip", judge.temperature
        row = Judgment(verdict.prompt, trajectory, advantage, weight, clip, temperature=temperature)
        return [row] if weight else []
    distribution = verdict.distribution
    if distribution is None:
        return []
    if verdict.sampled is None:
        return _choices(judge, item, distribution * (rewards(judge, item) - mean))
    drawn = np.eye(len(distribution))[verdict.sampled]
    return _choices(judge, item, advantage * (drawn - distribution))


def _log_score(judge: Judge, item: Scored, target: Floats) -> list[Judgment]:
    distribution = item.verdict.distribution
    return [] if distribution is None else _choices(judge, item, target - distribution)


def _choices(judge: Judge, item: Scored, advantages: Floats) -> list[Judgment]:
    """A row for each answer of a scored judgment."""
    verdict, weight, clip = item.verdict, judge.weight, judge.ratio == "clip"
    offsets = verdict.offsets or (0.0,) * len(verdict.logprobs)
    columns = (verdict.scale.choices, verdict.logprobs, offsets, advantages.tolist())
    if not weight:
        return []
    return [
        Judgment(
            verdict.prompt,
            Continuation(verdict.chat, text, logprob, offset),
            advantage,
            weight,
            clip,
            item.key,
        )
        for text, logprob, offset, advantage in zip(*columns, strict=True)
    ]


def subsample(judgments: list[Judgment], share: float, rng: random.Random) -> list[Judgment]:
    """A uniform draw of whole judgments, at least one: its mean loss is unbiased."""
    if share == 1:
        return judgments
    keys = list(dict.fromkeys((row.prompt.id, row.key) for row in judgments))
    kept = set(rng.sample(keys, min(len(keys), max(1, round(share * len(keys))))))
    return [row for row in judgments if (row.prompt.id, row.key) in kept]


def _divergence(targets: Sequence[tuple[Scored, Floats]]) -> dict[str, float]:
    """The loss as a number that can be read: cross-entropy minus the entropy of the target."""
    values = [
        float(np.sum(target[on] * np.log(target[on] / np.maximum(distribution[on], 1e-12))))
        for item, target in targets
        if (distribution := item.verdict.distribution) is not None
        for on in [target > 0]
    ]
    return {"loss/judge": float(np.mean(values))} if values else {}
