"""Top-B with exploration slots: which candidates are rolled out, and with what probability.

The slots are drawn first, uniformly from all candidates, failures included; the highest scores of
the rest fill the batch. Drawn first, they are a fair sample of the pool, so what is measured on
them is unbiased (drawn from what top-B leaves over, they would not be).
"""

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metis.signal import top_b


class Choice(NamedTuple):
    """Positions of the candidates to roll out: exploration slots, then the best of the rest."""

    explored: list[int]
    top: list[int]
    propensities: list[float]
    """Probability of each candidate to be chosen, given the scores."""
    tied_at_cut: int
    """Candidates whose score equals the lowest that was taken: ties decide among them."""


def explore_slots(batch: int, share: float) -> int:
    """How many of the batch are exploration slots: at least one where any are wanted."""
    return max(1, round(share * batch)) if share > 0 and batch > 0 else 0


def choose(
    scores: Sequence[float | None],
    batch: int,
    explore: int,
    rng: random.Random,
    ties: random.Random | None,
) -> Choice:
    """Algorithm 1, line 4: the exploration slots, then the highest scores that remain."""
    batch = min(batch, len(scores))
    explored = rng.sample(range(len(scores)), min(explore, batch))
    drawn = set(explored)
    rest = [i for i in range(len(scores)) if i not in drawn]
    top = top_b([scores[i] for i in rest], batch - len(explored), ties)
    chosen = [rest[i] for i in top]
    tied = sum(score == scores[chosen[-1]] for score in scores) if chosen else 0
    return Choice(explored, chosen, inclusion(scores, batch, len(explored)), tied)


def choice_metrics(choice: Choice) -> dict[str, float]:
    """How many there were to choose from, and how much of the choice was left to ties."""
    return {
        "select/candidates": float(len(choice.propensities)),
        "select/explored": float(len(choice.explored)),
        "select/tied_at_cut": float(choice.tied_at_cut),
    }


def inclusion(scores: Sequence[float | None], batch: int, explore: int) -> list[float]:
    """Probability that each candidate is chosen, given the scores.

    `explore` slots go to a uniform draw from all candidates, the rest of the batch to the highest
    scores that remain, ties at random. A candidate of rank r is reached by score when fewer than
    batch - explore of the r better ones are left, a hypergeometric tail.
    """
    total = len(scores)
    batch, explore = min(batch, total), min(explore, batch, total)
    if total == 0:
        return []
    by_rank = np.array([_chosen_at(rank, total, batch, explore) for rank in range(total)])
    keys = np.array([-np.inf if score is None else float(score) for score in scores])
    order = np.argsort(-keys, kind="stable")
    probabilities = np.empty(total)
    _, block = np.unique(-keys[order], return_inverse=True)
    shared = np.bincount(block, weights=by_rank) / np.bincount(block)
    probabilities[order] = shared[block]
    return [float(p) for p in probabilities]


def _chosen_at(rank: int, total: int, batch: int, explore: int) -> float:
    slots, drawn = batch - explore, explore / total
    if rank < slots or explore == total:
        return 1.0
    needed = rank - slots + 1
    if needed > explore:
        return drawn
    ways = sum(
        math.comb(rank, taken) * math.comb(total - 1 - rank, explore - taken)
        for taken in range(needed, min(rank, explore) + 1)
        if explore - taken <= total - 1 - rank
    )
    return drawn + (1.0 - drawn) * ways / math.comb(total - 1, explore)
