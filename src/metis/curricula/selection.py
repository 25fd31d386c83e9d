"""Top-B selection with exploration slots, and its inclusion probabilities.

The slots are sampled first, uniformly from all candidates, including failures; the highest scores
of the rest fill the batch. Sampled first, they are an unbiased sample of the candidates (sampled
from what top-B leaves over, they would not be).
"""

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core import Decision, Prompt
from metis.signal import top_b


class Choice(NamedTuple):
    """Positions of the candidates to roll out: exploration slots, then the best of the rest."""

    explored: list[int]
    top: list[int]
    propensities: list[float]
    """Probability of each candidate to be selected, given the scores."""
    tied_at_cut: int
    """Candidates tied with the lowest selected score."""

    @property
    def positions(self) -> list[int]:
        """All selected positions, sorted."""
        return sorted(self.explored + self.top)


def explore_slots(batch: int, explore: float) -> int:
    """The number of exploration slots in a batch: at least one if explore > 0.

    A batch of one prompt has none, or the judge would never select.
    """
    return max(1, round(explore * batch)) if explore > 0 and batch > 1 else 0


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
    chances = inclusion(scores, batch, len(explored), random_ties=ties is not None)
    return Choice(explored, chosen, chances, tied)


def choice_metrics(choice: Choice) -> dict[str, float]:
    """Metrics of a selection: candidates, exploration slots, and ties at the cut."""
    return {
        "select/candidates": float(len(choice.propensities)),
        "select/explored": float(len(choice.explored)),
        "select/tied_at_cut": float(choice.tied_at_cut),
    }


def decisions(
    candidates: Sequence[Prompt],
    choice: Choice,
    scores: Sequence[float | None],
    explored: str = "explore",
) -> list[Decision]:
    """The decision on each candidate, with its score; `explored` is the reason of uniform slots."""
    reasons = dict.fromkeys(choice.explored, explored) | dict.fromkeys(choice.top, "top")
    return [
        Decision(
            prompt,
            chosen=i in reasons,
            reason=reasons.get(i, "passed over"),
            score=scores[i],
            propensity=choice.propensities[i],
        )
        for i, prompt in enumerate(candidates)
    ]


def top_decisions(
    candidates: Sequence[Prompt],
    chosen: Collection[int],
    scores: Sequence[float | None],
    reason: str = "top",
) -> list[Decision]:
    """The decision on each candidate: in the batch for this reason, or passed over."""
    return [
        Decision(prompt, i in chosen, reason if i in chosen else "passed over", scores[i])
        for i, prompt in enumerate(candidates)
    ]


def inclusion(
    scores: Sequence[float | None], batch: int, explore: int, random_ties: bool = True
) -> list[float]:
    """Probability that each candidate is selected, given the scores.

    `explore` slots are sampled uniformly from all candidates; the highest scores of the rest fill
    the batch. A candidate of rank r is selected by score if fewer than batch - explore of the r
    better ones are left: a hypergeometric tail. Random ties share their ranks.
    """
    total = len(scores)
    if total == 0:
        return []
    batch = min(batch, total)
    by_rank = _by_rank(total, batch, min(explore, batch))
    order = top_b(scores, total, None)
    if random_ties:
        block = np.cumsum(
            [i > 0 and scores[order[i - 1]] != scores[order[i]] for i in range(total)]
        )
        by_rank = (np.bincount(block, weights=by_rank) / np.bincount(block))[block]
    probabilities = np.empty(total)
    probabilities[order] = by_rank
    return [float(p) for p in probabilities]


def _by_rank(total: int, batch: int, explore: int) -> NDArray[np.float64]:
    """Probability to be selected at each rank, without ties."""
    slots, drawn = batch - explore, explore / total
    chances = np.full(total, drawn)
    chances[:slots] = 1.0
    if explore == 0 or explore == total:
        return chances
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])

    def log_choose(n: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.float64]:
        possible = (k >= 0) & (k <= n)
        n, k = np.where(possible, n, 0), np.where(possible, k, 0)
        ways = log_factorial[n] - log_factorial[k] - log_factorial[n - k]
        return np.where(possible, ways, -np.inf)

    rank, taken = np.arange(slots, batch)[:, None], np.arange(explore + 1)[None, :]
    log_ways = log_choose(rank, taken) + log_choose(total - 1 - rank, explore - taken)
    probability = np.exp(log_ways - log_choose(np.array([total - 1]), np.array([explore])))
    reached = np.where(taken >= rank - slots + 1, probability, 0.0).sum(axis=1)
    chances[slots:batch] = drawn + (1.0 - drawn) * reached
    return chances
