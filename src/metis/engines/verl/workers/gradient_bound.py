"""The bound on the judge's gradient, in log-probability space.

verl's workers report one gradient norm for both losses. A proxy is known before the update: the
norm of the gradient with respect to the token log-probabilities, at importance ratio 1, with the
mean over tokens, then rollouts. It ignores the network's Jacobian.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from metis.engines.objective.gradient_bound import GradientBound
from metis.engines.verl.workers.rows import UpdateRow

LARGE_ADVANTAGE = 0.5
"""|A| of every rollout in a group with pass rate 1/2."""


def bound_judgments(
    parts: Sequence[Sequence[UpdateRow]], gradient_share: float, bound: GradientBound
) -> dict[str, float]:
    """Scale the judge's rows of every mini-batch to at most a share of the policy's gradient.

    The metric is the mean ratio of the two norms in log-probability space, over mini-batches.
    """
    judged = [part for part in parts if any(row.kind == "judgment" for row in part)]
    if not gradient_share or not judged:
        return {}
    usual = max(large_norm(part) for part in parts)
    ratios = []
    for part in judged:
        bound.large = large_norm(part) or usual
        bound.note(policy_norm(part))
        norm = judge_norm(part)
        scale = bound.scale(gradient_share, norm)
        for row in part:
            row.judge = row.judge._replace(coefficient=scale * row.judge.coefficient)
        ratios.append(scale * norm / bound.reference)
    return {"judge/gradient_ratio": float(np.mean(ratios))}


def policy_norm(rows: Sequence[UpdateRow]) -> float:
    """The policy's norm: A/(T N) at each of T tokens of a rollout, N rollouts in the mini-batch."""
    groups: dict[str, dict[int, float]] = {}
    for row in rows:
        groups.setdefault(row.uid, {})[row.session] = row.reward
    means = {uid: math.fsum(rewards.values()) / len(rewards) for uid, rewards in groups.items()}
    return _norm(rows, lambda row: row.reward - means[row.uid])


def large_norm(rows: Sequence[UpdateRow]) -> float:
    """The policy's norm if every |A| were 1/2."""
    return _norm(rows, lambda _: LARGE_ADVANTAGE)


def _norm(rows: Sequence[UpdateRow], advantage: Callable[[UpdateRow], float]) -> float:
    return math.sqrt(
        math.fsum(
            advantage(row) ** 2 / (_tokens(row) * row.judge.rollouts**2)
            for row in rows
            if row.kind == "rollout" and _tokens(row)
        )
    )


def judge_norm(rows: Sequence[UpdateRow]) -> float:
    """The judge's norm: coefficient * advantage per token of a reply, or per scored choice."""
    return math.sqrt(math.fsum(_square(row) for row in rows if row.kind == "judgment"))


def _square(row: UpdateRow) -> float:
    if row.scored is None:
        return float(_tokens(row) * (row.judge.coefficient * row.judge.advantage) ** 2)
    terms = row.scored.choices.terms
    weights = row.judge.coefficient * terms.coefficient * terms.advantage
    return float(np.sum(np.square(weights)))


def _tokens(row: UpdateRow) -> int:
    return int(row.trajectory.loss_mask[1:].sum())
